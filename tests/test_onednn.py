"""The choice of oneDNN, which must be made before TensorFlow is imported; no test imports it."""

import platform
import sys

import pytest

from fabir_tf import onednn

NEWEST, AVX2, OLD = frozenset({"avx2", "avx512_vnni"}), frozenset({"avx2", "fma"}), frozenset({"sse4_1"})


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.delenv(onednn.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


def with_processor(monkeypatch, features):
    monkeypatch.setattr(onednn, "processor_features", lambda: features)


@pytest.mark.parametrize(
    ("features", "added"), [(NEWEST, {onednn.SWITCH: "1"}), (AVX2, {onednn.SWITCH: "1"}), (OLD, {})]
)
def test_it_is_chosen_where_the_processor_has_avx2(features, added, monkeypatch):
    with_processor(monkeypatch, features)
    assert onednn.settings() == added


@pytest.mark.parametrize("given", ["0", "1"])
def test_the_users_choice_stays(given, monkeypatch):
    with_processor(monkeypatch, AVX2)
    monkeypatch.setenv(onednn.SWITCH, given)
    assert onednn.settings() == {}
    assert onednn.is_on() == (given == "1")
    assert onednn.advice() is None


def test_after_tensorflow_it_is_too_late_and_that_is_said(monkeypatch):
    with_processor(monkeypatch, AVX2)
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    assert onednn.settings() == {}
    assert not onednn.is_on()
    assert "TF_ENABLE_ONEDNN_OPTS=1, or import fabir_tf first" in onednn.advice()


@pytest.mark.parametrize("features", [NEWEST, OLD])
def test_no_advice_where_nothing_is_lost(features, monkeypatch):
    with_processor(monkeypatch, features)
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    assert onednn.advice() is None


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="needs the list of Linux on x86")
def test_the_processors_features_are_read():
    assert {"fpu", "sse2"} <= onednn.processor_features()
