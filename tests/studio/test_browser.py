"""The studio in a real browser: headless Chromium, driven as a person would; axe-core looks for barriers.

`make test-browser` installs what is needed, and DPCONVEX_SCREENSHOTS names a folder for the pictures of the guide.
"""

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser import AXE, open_browser
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from studio_server import running

import dpconvex as dc

PAGES = ("/", "/compare", "/schema", "/verify", "/ledger", "/attacks")
SERIOUS = ("serious", "critical")
PICTURES = os.environ.get("DPCONVEX_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def studio(browser, tmp_path_factory):
    """The address of a studio with a ledger, which the browser has entered."""
    url = str(tmp_path_factory.mktemp("ledger") / "budget.db")
    ledger = dc.Ledger.open(url)
    ledger.declare("clinic", budget=dc.Budget(3.0, 1e-6), owner="Ada")
    for epsilon in (0.5, 0.25, 1.0):
        with dc.context(ledger=ledger, dataset="clinic"):
            model = dc.PrivateLogisticRegression(epsilon=epsilon, feature_bound=1.0, classes=[0, 1])
            model.fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    with running("--ledger", url) as address:
        browser.get(address)
        at = urlsplit(address)
        yield f"{at.scheme}://{at.netloc}"


def wait(browser, condition):
    return WebDriverWait(browser, 60, ignored_exceptions=[StaleElementReferenceException]).until(condition)


def text(browser, where):
    return browser.find_element(By.CSS_SELECTOR, where).text


def photograph(browser, name):
    """Keep a picture of the page for the guide, if a folder is named."""
    if PICTURES:
        browser.set_window_size(1180, 1000)
        browser.save_screenshot(str(Path(PICTURES, f"studio-{name}.png")))


def test_the_first_page_is_painted_within_a_second(browser, studio):
    browser.get(studio + "/")
    script = "return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"
    assert wait(browser, lambda b: b.execute_script(script))[0] < 1000.0


def test_a_new_epsilon_brings_a_new_prediction(browser, studio):
    browser.get(studio + "/")
    before = text(browser, ".scores")
    slider = browser.find_element(By.ID, "slide")
    for _ in range(35):
        slider.send_keys(Keys.ARROW_LEFT)
    wait(browser, lambda b: text(b, ".scores") != before)
    epsilon = float(browser.find_element(By.ID, "epsilon").get_attribute("value"))
    assert 0.05 < epsilon < 0.3
    found = dc.recommend(n=10_000, d=20, budget=dc.Budget(epsilon, 1e-6))
    wait(browser, lambda b: f"AUC {found.scores[1].expected:.2f}" in text(b, ".scores"))
    field = browser.find_element(By.ID, "n")
    field.clear()
    field.send_keys("40")
    wait(browser, lambda b: text(b, "#answer .status").startswith("Hopeless"))
    photograph(browser, "cost")


def test_a_schema_is_written(browser, studio):
    browser.get(studio + "/schema")
    browser.find_element(By.ID, "new").send_keys("age, ward")
    browser.find_element(By.CSS_SELECTOR, "button[value=add]").click()
    wait(browser, lambda b: b.find_elements(By.ID, "type-0"))
    Select(browser.find_element(By.ID, "type-0")).select_by_value("number")
    assert browser.find_element(By.ID, "low-0").is_displayed()
    assert not browser.find_element(By.ID, "categories-0").is_displayed()
    Select(browser.find_element(By.ID, "type-1")).select_by_value("category")
    answers = {
        "name": "clinic",
        "low-0": "18",
        "high-0": "110",
        "categories-1": "A, B",
        "target": "ill",
        "labels": "no, yes",
    }
    for where, words in answers.items():
        field = browser.find_element(By.ID, where)
        field.clear()
        field.send_keys(words)
    photograph(browser, "schema")
    browser.find_element(By.CSS_SELECTOR, "button[value=keep]").click()
    wait(browser, lambda b: text(b, ".status").startswith("The schema is complete"))
    browser.get(studio + "/")
    assert 'the schema "clinic"' in text(browser, "form")
    browser.get(studio + "/schema")
    browser.find_element(By.TAG_NAME, "summary").click()
    browser.find_element(By.CSS_SELECTOR, "button[value=empty]").click()
    wait(browser, lambda b: text(b, ".status").startswith("Add the columns"))


def test_a_receipt_is_verified_and_a_forged_one_refused(browser, studio, tmp_path):
    X = np.eye(3)[np.arange(300) % 3]
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1]).fit(X, np.arange(300) % 2)
    true, forged = tmp_path / "true.json", tmp_path / "forged.json"
    true.write_text(model.receipt_.to_json())
    data = json.loads(model.receipt_.to_json())
    data["claim"]["epsilon"] = 0.001
    forged.write_text(json.dumps(data))
    for path, words in ((forged, "Refused:"), (true, "PRIVATE RELEASE")):
        browser.get(studio + "/verify")
        browser.find_element(By.ID, "file").send_keys(str(path))
        wait(browser, lambda b: b.find_element(By.ID, "release").get_attribute("value"))
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        assert wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "#answer .status"))[0].text.startswith(words)
    photograph(browser, "verify")


def test_a_ledger_is_seen(browser, studio):
    browser.get(studio + "/ledger")
    assert "of 3 spent" in text(browser, ".budgets")
    assert len(browser.find_elements(By.CSS_SELECTOR, "figure svg circle")) == 3
    photograph(browser, "ledger")


def test_an_attack_is_watched_to_its_end(browser, studio):
    browser.get(studio + "/attacks")
    button = browser.find_element(By.CSS_SELECTOR, "button[data-attack=float64]")
    button.click()
    wait(browser, lambda b: "The claim is refuted." in text(b, "#found-float64"))
    drawn = "return [...document.getElementById('canvas-float64').getContext('2d').getImageData(0,0,640,220).data]"
    assert any(browser.execute_script(drawn))
    browser.execute_script("arguments[0].closest('section').scrollIntoView()", button)
    photograph(browser, "attack")


@pytest.mark.parametrize("path", PAGES)
def test_the_keyboard_reaches_everything_in_order(browser, studio, path):
    browser.get(studio + path)

    def press():
        ActionChains(browser).send_keys(Keys.TAB).perform()

    press()
    assert browser.switch_to.active_element.text == "Skip to the page"
    wanted = browser.execute_script(
        "return [...document.querySelectorAll('a[href],button,input,select,textarea,summary')]"
        ".filter(e => e.checkVisibility() && !(e.type === 'radio' && !e.checked)).length"
    )
    seen = set()
    for _ in range(wanted + 5):
        seen.add(browser.execute_script("return [...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        press()
    assert len(seen) >= wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_serious_barrier(browser, studio, path, width, scheme):
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    try:
        browser.get(studio + path)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth + 1")
        browser.execute_script(AXE.read_text(encoding="utf-8"))
        found = browser.execute_async_script("axe.run().then(arguments[0])")
        assert [v["id"] for v in found["violations"] if v["impact"] in SERIOUS] == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_no_request_leaves_this_computer_and_nothing_is_logged(browser, studio):
    browser.get_log("performance")
    for path in PAGES:
        browser.get(studio + path)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert len(asked) >= 3 * len(PAGES)
    assert {url for url in asked if not url.startswith((studio, "data:,"))} == set()
    assert browser.get_log("browser") == []
