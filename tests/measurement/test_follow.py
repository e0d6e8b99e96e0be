from mi300bench.measurement.follow import lead_or_follow
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Plan, Point


def test_without_a_launcher_the_process_leads_with_all_its_passes(monkeypatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    point = Point(probe="memory.copy", method=1, target="", params={})
    plan, settings = Plan(question="?", points=(point,), passes=3), Settings(passes=3)
    with lead_or_follow(plan, settings) as mine:
        assert mine == (plan, settings)
