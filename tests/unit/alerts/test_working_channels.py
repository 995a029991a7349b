from __future__ import annotations

from threading import Thread

from ml_metrics.alerts.outbox.sender import MAX_FAILURES, WorkingChannels

LONG = 60.0


def test_one_message_tries_a_channel_and_the_others_wait_for_its_result() -> None:
    channels = WorkingChannels()
    assert channels.claim(["smtp"], LONG) == {"smtp"}
    assert channels.claim(["smtp"], 0) == set()
    found: list[set[str]] = []
    waiting = Thread(target=lambda: found.append(channels.claim(["smtp", "webhook"], LONG)))
    waiting.start()
    channels.release("smtp", works=False)
    waiting.join(LONG)
    assert found == [{"webhook"}]
    assert channels.down == ["smtp"]


def test_a_channel_that_has_worked_is_down_after_some_failures_in_a_row() -> None:
    channels = WorkingChannels()
    channels.claim(["smtp"], LONG)
    channels.release("smtp", works=True)
    for works in (*[False] * (MAX_FAILURES - 1), True, *[False] * (MAX_FAILURES - 1)):
        assert channels.claim(["smtp"], LONG) == {"smtp"}
        channels.release("smtp", works=works)
    assert channels.down == []
    channels.release("smtp", works=False)
    assert channels.claim(["smtp"], LONG) == set()


def test_a_channel_that_was_claimed_and_not_used_is_tried_by_the_next_message() -> None:
    channels = WorkingChannels()
    channels.claim(["smtp"], LONG)
    channels.release("smtp", works=None)
    assert channels.claim(["smtp"], LONG) == {"smtp"}
    channels.release("smtp", works=True)
    channels.release("smtp", works=None)
    assert channels.claim(["smtp"], LONG) == {"smtp"}


def test_channels_are_claimed_together_or_not_at_all() -> None:
    channels = WorkingChannels()
    assert channels.claim(["a"], LONG) == {"a"}
    assert channels.claim(["a", "b"], 0) == set()
    assert channels.claim(["b"], LONG) == {"b"}
