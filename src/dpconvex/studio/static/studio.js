// What pages do beyond plain forms: answers while a slider moves, files read by the browser, attacks drawn.
"use strict";

function later(act, wait) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(act, wait); };
}

for (const form of document.querySelectorAll("form[data-live]")) {
  const answer = document.getElementById(form.dataset.live);
  let asked = 0;
  const ask = async () => {
    const mine = ++asked;
    const address = form.action.split("?")[0] + "?" + new URLSearchParams(new FormData(form));
    answer.setAttribute("aria-busy", "true");
    try {
      const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
      if (mine !== asked) return;
      answer.replaceChildren(...page.getElementById(answer.id).childNodes);
      history.replaceState(null, "", address);
    } finally {
      if (mine === asked) answer.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("input", later(ask, 150));
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
}

for (const slider of document.querySelectorAll("input[data-sets]")) {
  const field = document.getElementById(slider.dataset.sets);
  const low = Math.log(slider.dataset.low), high = Math.log(slider.dataset.high);
  slider.addEventListener("input", () => {
    field.value = Number(Math.exp(low + slider.value / 100 * (high - low)).toPrecision(2));
    slider.setAttribute("aria-valuetext", field.value);
  });
  field.addEventListener("input", () => {
    if (field.value > 0) slider.value = 100 * (Math.log(field.value) - low) / (high - low);
  });
}

async function fill(field, file) {
  field.value = await file.text();
  field.focus();
}

for (const chooser of document.querySelectorAll("input[data-fills]")) {
  const field = document.getElementById(chooser.dataset.fills);
  chooser.addEventListener("change", () => { if (chooser.files[0]) fill(field, chooser.files[0]); });
}

for (const field of document.querySelectorAll("textarea[data-drop]")) {
  field.addEventListener("dragover", (event) => event.preventDefault());
  field.addEventListener("drop", (event) => {
    if (event.dataTransfer.files[0]) { event.preventDefault(); fill(field, event.dataTransfer.files[0]); }
  });
}

function draw(canvas, counts) {
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const most = Math.max(1, ...counts.flat()), width = canvas.width / counts[0].length;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.globalAlpha = 0.6;
  counts.forEach((side, which) => {
    pen.fillStyle = style.getPropertyValue(which ? "--b" : "--a");
    side.forEach((count, k) => {
      const height = (canvas.height - 4) * count / most;
      pen.fillRect(k * width, canvas.height - height, width - 1, height);
    });
  });
}

for (const button of document.querySelectorAll("button[data-attack]")) {
  const name = button.dataset.attack, canvas = document.getElementById("canvas-" + name);
  const words = document.getElementById("found-" + name);
  const step = async (again) => {
    const body = new URLSearchParams(again ? { name, again: "1" } : { name });
    const found = await (await fetch("/attack", { method: "POST", body })).json();
    if (found.error) { words.textContent = found.error; return found; }
    draw(canvas, found.counts);
    const more = found.found > found.claimed;
    const bound = found.found === null ? "more than any number" : "at least " + found.found.toPrecision(3);
    canvas.setAttribute("aria-label", `Histogram of ${found.runs} runs on each data set`);
    if (found.runs >= found.all)
      words.textContent = `${found.runs} runs on each data set: epsilon is claimed to be ${found.claimed.toPrecision(3)}`
        + ` and is ${bound}, at 99% confidence. ` + (more || found.found === null ? "The claim is refuted." : "Not refuted.");
    else button.textContent = `${found.runs} of ${found.all} runs`;
    return found;
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    let found = await step(true);
    while (!found.error && found.runs < found.all) found = await step(false);
    button.disabled = false;
    button.textContent = "Attack again";
  });
}
