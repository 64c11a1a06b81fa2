import pytest
from cli_helpers import Clinic


@pytest.fixture
def clinic(tmp_path):
    return Clinic(tmp_path)
