"""What the page of the study says of its exponents."""

from linattn_study.findings import laws
from linattn_study.findings.losses import ARCHITECTURES
from linattn_study.plan import CORPORA

HEADS = ("more heads", "C = 6 N D, more heads")


def test_what_is_said_of_exponents_with_more_heads_is_so() -> None:
    for corpus in CORPORA:
        grid = laws.find_fit(corpus, "tnl", "paper's", "loss")
        assert grid is not None
        for way in HEADS:
            found = {arch: laws.find_fit(corpus, arch, way, "loss") for arch in ARCHITECTURES}
            of = {arch: one for arch, one in found.items() if one is not None}
            assert grid.high < of["tnl"].low
            assert of["cosformer2"].low < of["tnl"].high
            assert of["tnl"].low < of["cosformer2"].high
            assert all(one.value < of["hgrn2"].value for arch, one in of.items() if arch != "hgrn2")
            level = of["llama"].high > of["hgrn2"].low
            assert level == ((corpus, way) == ("novels", "C = 6 N D, more heads"))


def test_the_way_to_fit_moves_exponents_more_than_three_architectures_differ() -> None:
    for law in ("loss", "parameters", "tokens"):
        for corpus in CORPORA:
            of = {
                arch: [
                    one.value
                    for way in laws.list_fit_methods(law)
                    if (one := laws.find_fit(corpus, arch, way, law))
                ]
                for arch in ARCHITECTURES
            }
            papers = [of[arch][0] for arch in ARCHITECTURES if arch != "tnl"]
            assert laws.list_fit_methods(law)[0] == "paper's"
            assert all(max(found) - min(found) > max(papers) - min(papers) for found in of.values())
            heads = laws.find_fit(corpus, "tnl", "more heads", law)
            assert heads is not None
            assert abs(heads.value - of["tnl"][0]) > max(papers) - min(papers)
    for arch in ARCHITECTURES:
        for law, low, high in (("loss", 1.65, 2.25), ("parameters", 0.95, 1.05), ("tokens", 0.9, 1.1)):
            prose, code = (laws.find_fit(corpus, arch, "paper's", law) for corpus in CORPORA)
            assert prose is not None
            assert code is not None
            assert low < code.value / prose.value < high


def test_exponents_on_prose_cannot_be_told_apart_but_tnls_can() -> None:
    for way in ("paper's", "C = 6 N D"):
        found = {(c, a): laws.find_fit(c, a, way, "loss") for c in CORPORA for a in ARCHITECTURES}
        three = [found["novels", arch] for arch in ARCHITECTURES if arch != "tnl"]
        assert all(one.low < other.high for one in three for other in three if one and other)
        tnl, llama = found["code", "tnl"], found["code", "llama"]
        assert tnl is not None
        assert llama is not None
        assert tnl.high < llama.low
    paper = {
        arch: laws.find_fit("code", arch, "paper's", "loss") for arch in ("llama", "hgrn2", "cosformer2")
    }
    assert all(paper["llama"].high < paper[arch].low for arch in ("hgrn2", "cosformer2"))  # type: ignore[union-attr]


def test_what_is_said_of_fits_that_fail_is_so() -> None:
    failed = {(corpus, arch, way) for corpus, arch, way, _ in laws.list_failures()}
    corners = {("novels", "tnl"), ("novels", "cosformer2"), ("code", "cosformer2")}
    assert failed == {(*one, "corners") for one in corners} | {("novels", "cosformer2", "isoFLOP")}


def test_parameters_grow_faster_in_all_fits_of_llama_and_hgrn2() -> None:
    for corpus in CORPORA:
        for arch in ("llama", "hgrn2"):
            for way in laws.list_fit_methods("parameters"):
                a, b = (laws.find_fit(corpus, arch, way, law) for law in ("parameters", "tokens"))
                assert a is None or a.value > (1 - a.value if b is None else b.value)
