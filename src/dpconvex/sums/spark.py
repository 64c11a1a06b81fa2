"""Parts that are the partitions of a Spark DataFrame: one row of sums for each, by `mapInArrow`.

What a partition answers is a returned value, never an accumulator, which a retried task would add to twice. It is
encrypted under a key of the run. Spark computes partitions again on every pass, and after the loss of an executor: the
fingerprints of `sums.parts` refuse rows that come out otherwise or in another order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpconvex.data.opened import OpenedParts
from dpconvex.data.sources import Once, SparkPartition, need, tables
from dpconvex.errors import InputError, PartsError
from dpconvex.sums.parts import Engine, Question, Which
from dpconvex.sums.store import Store
from dpconvex.sums.workers import Task, kind, opened, work


class Spark(Engine):
    """Asks the partitions of a DataFrame, all in one job of Spark for each question."""

    def __init__(self, rows: OpenedParts, key: bytes, store: Store) -> None:
        super().__init__(rows, key, store)
        sources = [part.source for part in rows.parts.parts]
        if not all(isinstance(s, SparkPartition) and s.frame is sources[0].frame for s in sources):  # type: ignore[attr-defined]
            raise InputError("a Spark DataFrame cannot be in a list with other parts: unite them in Spark")
        self._frame = sources[0].frame  # type: ignore[attr-defined]
        self._places = {s.number: number for number, s in enumerate(sources)}  # type: ignore[attr-defined]
        self._seal = AESGCM.generate_key(256)
        _check_encrypted(self._frame.sparkSession)

    def ask(
        self, asked: list[tuple[int, Which]], question: Question, done: Callable[[int], None]
    ) -> Generator[np.ndarray | None, None, None]:
        """Yield the answer of each part, in order."""
        tasks = {}
        for number, local in asked:
            piece = self.rows.piece(number)
            part = replace(piece, part=replace(piece.part, source=Once(iter(()))))
            tasks[piece.part.source.number] = Task(  # type: ignore[attr-defined]
                kind(), os.urandom(16), self.key, self._seal, 0, None, number, part, local, question
            )
        try:
            found = self._frame.mapInArrow(_Answers(tasks), "part long, answer binary").collect()
        except Exception as error:  # Spark quotes rows
            raise PartsError(f"Spark could not add up the partitions ({type(error).__name__})") from None
        answers = {row["part"]: bytes(row["answer"]) for row in found}
        for number, _ in asked:
            if number not in answers:
                raise PartsError(f"{self.rows.parts.parts[number].name}: Spark has no such partition any more")
            total, names = opened(answers[number], self._seal, number)
            self.compare(number, names)
            done(self.rows.parts.parts[number].rows)
            yield total


class _Answers:
    """What `mapInArrow` calls for each partition."""

    def __init__(self, tasks: dict[int, Task]) -> None:
        self._tasks = tasks

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        arrow = need("pyarrow", "files")
        task = self._tasks.get(need("pyspark", "spark").TaskContext.get().partitionId())
        if task is None:
            return
        part = replace(task.part, part=replace(task.part.part, source=Once(tables(batches))))
        sealed = work(replace(task, part=part))
        columns = [arrow.array([task.number], arrow.int64()), arrow.array([sealed], arrow.binary())]
        yield arrow.RecordBatch.from_arrays(columns, names=["part", "answer"])


def _check_encrypted(session: Any) -> None:
    """Refuse executors on other machines without encryption."""
    context = session.sparkContext
    kept = context.getConf()
    encrypted = any(
        kept.get(name, "false") == "true" for name in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    )
    if not (context.master.startswith("local") or encrypted):
        raise InputError(
            "the questions of a solver would travel unencrypted to other machines: set spark.network.crypto.enabled "
            "and spark.authenticate to true"
        )
