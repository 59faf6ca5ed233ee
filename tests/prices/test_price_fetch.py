"""Fetching without a network: what each source asks for, and that what it yields can be parsed."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Callable, Mapping

import pytest

from sources.base import FetchError, NotConfiguredError, Response
from sources.http_errors import StatusError
from sources.registry import source_named

from .loading import FIXTURES, fixture

AT = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
Answer = Callable[[str, Mapping[str, str]], bytes | None]


class FakeWeb:
    """Answers by a function of the URL and the parameters or the JSON sent; records what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.sent_headers: list[Mapping[str, str]] = []

    def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = True,
        max_bytes: int | None = None,
    ) -> Response | None:
        self.asked.append((url, dict(params or {})))
        self.sent_headers.append(dict(headers or {}))
        body = self.answer(url, params or {})
        return None if body is None else Response(url, 200, body, "application/json", AT)

    def post(
        self, url: str, *, json: object, headers: Mapping[str, str] | None = None, max_bytes: int | None = None
    ) -> Response:
        assert isinstance(json, dict)
        self.asked.append((url, json))
        body = self.answer(url, json)
        assert body is not None
        return Response(url, 200, body, "application/json", AT)


def _read(source: str, name: str) -> bytes:
    return fixture(source, name).read_bytes()


ONE_FILE = {
    "gpu-prices/oracle": "products_2026-10-01.json",
    "gpu-prices/coreweave": "pricing_2026-11-02.html",
    "gpu-prices/verda": "instance_types_2026-11-01.json",
    "gpu-prices/runpod": "gpuTypes_2026-11-01.json",
    "gpu-prices/scaleway": "fr-par-2_2026-11-03.json",
    "gpu-prices/vast": "book_2026-11-01.json",
    "gpu-prices/gcp": "pricing.yml",
    "fx-ecb": "eurofxref-hist-90d.xml",
}


@pytest.mark.parametrize(("source", "name"), sorted(ONE_FILE.items()))
def test_what_is_fetched_parses_and_is_dated_by_the_fetch(
    source: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GCP_API_KEY", raising=False)
    body = _read(source, name)
    payloads = list(source_named(source).fetch(FakeWeb(lambda *_: body)))
    assert payloads
    for payload in payloads:
        assert payload.source == source
        assert payload.stream
        assert payload.retrieved_at == AT
        frame = next(iter(source_named(source).parse(payload).frames.values()))
        assert frame.height
        if "observed_at" in frame.columns and source != "gpu-prices/gcp":  # the mirror states its own time
            assert frame["observed_at"].unique().to_list() == [AT]


def test_unchanged_documents_yield_nothing() -> None:
    for source in ("oracle", "coreweave", "verda", "scaleway", "aws", "vultr", "skypilot"):
        assert list(source_named(f"gpu-prices/{source}").fetch(FakeWeb(lambda *_: None))) == []


def test_aws_asks_for_each_location_spot_and_advisor() -> None:
    bodies = {"spot.js": "spot_2026-10-02.js", "spot-advisor-data.json": "advisor_2026-10-02.json"}
    web = FakeWeb(lambda url, _: _read("gpu-prices/aws", bodies.get(url.rsplit("/", 1)[-1], "website_2026-10-02.json")))
    payloads = list(source_named("gpu-prices/aws").fetch(web))
    urls = [url for url, _ in web.asked]
    assert any("US%20East%20%28N.%20Virginia%29/Linux/index.json" in url for url in urls)
    assert len({p.stream for p in payloads}) == len(payloads) == len(urls)
    for payload in payloads:
        assert source_named("gpu-prices/aws").parse(payload).frames["market.gpu_offers"].height


def test_aws_price_list_takes_the_first_version_of_each_month() -> None:
    index = {"versions": {v: {} for v in ("20211231000000", "20240105000000", "20240120000000", "20240205184227")}}
    table = _read("gpu-prices/aws", "pricelist.csv")
    web = FakeWeb(lambda url, _: table if url.endswith(".csv") else json.dumps(index).encode())
    payloads = list(source_named("gpu-prices/aws-pricelist").fetch(web))
    assert [p.url.split("/")[-3] for p in payloads] == ["20240105000000", "20240205184227"]
    assert [p.stream for p in payloads] == ["pricelist/us-east-1/202401", "pricelist/us-east-1/202402"]
    with pytest.raises(FetchError, match="no versions"):
        list(source_named("gpu-prices/aws-pricelist").fetch(FakeWeb(lambda *_: b"{}")))


def test_azure_follows_the_next_link_to_the_end() -> None:
    page = json.loads(_read("gpu-prices/azure", "retail_2026-07-27.json"))
    first = {**page, "Items": page["Items"][:8], "NextPageLink": "https://prices.azure.com/next"}
    last = {**page, "Items": page["Items"][8:], "NextPageLink": None}
    web = FakeWeb(lambda url, _: json.dumps(last if url.endswith("next") else first).encode())
    payloads = list(source_named("gpu-prices/azure").fetch(web))
    assert [p.stream for p in payloads] == ["retail/Standard_ND", "retail/Standard_NC", "retail/Standard_NV"]
    parsed = source_named("gpu-prices/azure").parse(payloads[0])
    assert parsed.frames["market.gpu_offers"].height + len(parsed.rejects) == len(page["Items"])
    assert "startswith(armSkuName, 'Standard_ND')" in str(web.asked[0][1]["$filter"])
    endless = FakeWeb(lambda *_: json.dumps(first).encode())
    with pytest.raises(FetchError, match="pages"):
        list(source_named("gpu-prices/azure").fetch(endless))


def test_gcp_reads_all_pages_with_the_key_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCP_API_KEY", "k3y")
    page = json.loads(_read("gpu-prices/gcp", "catalogue_2023-04-01.json"))
    one = json.dumps({"skus": page["skus"][:4], "nextPageToken": "more"}).encode()
    two = json.dumps({"skus": page["skus"][4:], "nextPageToken": ""}).encode()
    mirror = _read("gpu-prices/gcp", "pricing.yml")

    def answer(url: str, params: Mapping[str, str]) -> bytes:
        return mirror if url.endswith(".yml") else two if params.get("pageToken") else one

    web = FakeWeb(answer)
    payloads = list(source_named("gpu-prices/gcp").fetch(web))
    assert [p.stream for p in payloads] == ["mirror", "catalogue"]
    assert web.sent_headers[-1] == {"X-Goog-Api-Key": "k3y"}
    assert not any("k3y" in f"{url}{params}" for url, params in web.asked)
    rows = source_named("gpu-prices/gcp").parse(payloads[1]).frames["market.gpu_offers"]
    assert 3.673385 in rows["price_usd_per_gpu_hour"].to_list()
    monkeypatch.setattr("sources.prices.gcp.MAX_PAGES", 3)
    with pytest.raises(FetchError, match="did not end"):
        list(source_named("gpu-prices/gcp").fetch(FakeWeb(lambda url, _: mirror if url.endswith(".yml") else one)))


def test_vast_asks_for_each_model_with_a_limit() -> None:
    body = _read("gpu-prices/vast", "book_2026-11-01.json")
    web = FakeWeb(lambda *_: body)
    payloads = list(source_named("gpu-prices/vast").fetch(web))
    models = [query["gpu_name"]["in"] for _, query in web.asked]  # type: ignore[index]
    assert ["A100 SXM4"] in models
    assert ["A100 SXM"] not in models  # a name that returns nothing every day
    assert all(query["limit"] == 3000 for _, query in web.asked)
    rows = source_named("gpu-prices/vast").parse(payloads[0]).frames["market.gpu_offers"]
    assert not rows["quality_flags"].str.contains("truncated_book").any()


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMBDA_API_KEY", "secret-a")
    monkeypatch.setenv("DIGITALOCEAN_TOKEN", "secret-b")
    for source, name, key in (
        ("gpu-prices/lambda", "instance_types_2026-11-01.json", "secret-a"),
        ("gpu-prices/digitalocean", "sizes_2026-11-01.json", "secret-b"),
    ):
        body = _read(source, name)
        web = FakeWeb(lambda *_, body=body: body)
        (payload,) = source_named(source).fetch(web)
        assert web.sent_headers == [{"Authorization": f"Bearer {key}"}]
        assert key not in f"{payload}"
        assert source_named(source).parse(payload).frames["market.gpu_offers"].height == 2


@pytest.mark.parametrize("source", ["lambda", "digitalocean"])
def test_a_source_without_its_key_says_so(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    monkeypatch.delenv("DIGITALOCEAN_TOKEN", raising=False)
    with pytest.raises(NotConfiguredError, match=r"needs a key: set (LAMBDA_API_KEY|DIGITALOCEAN_TOKEN)"):
        list(source_named(f"gpu-prices/{source}").fetch(FakeWeb(lambda *_: b"")))


def test_vultr_asks_for_both_lists() -> None:
    web = FakeWeb(
        lambda url, _: _read(
            "gpu-prices/vultr", "plans_metal_2026-11-01.json" if url.endswith("metal") else "plans_2026-11-01.json"
        )
    )
    payloads = list(source_named("gpu-prices/vultr").fetch(web))
    assert [p.stream for p in payloads] == ["plans", "plans-metal"]


def test_skypilot_passes_over_a_cloud_that_left_but_not_over_an_outage() -> None:
    table = (FIXTURES / "gpu-prices-skypilot" / "v8_verda_vms_2026-11-01.csv").read_bytes()

    def answer(url: str, _: Mapping[str, str]) -> bytes:
        if "/verda/" in url:
            return table
        raise StatusError(f"{url}: not there", 404)

    payloads = list(source_named("gpu-prices/skypilot").fetch(FakeWeb(answer)))
    assert [p.stream for p in payloads] == ["verda"]
    assert source_named("gpu-prices/skypilot").parse(payloads[0]).frames["market.gpu_offers"].height

    def down(url: str, _: Mapping[str, str]) -> bytes:
        raise StatusError(f"{url}: 503", 503)

    with pytest.raises(FetchError, match="503"):
        list(source_named("gpu-prices/skypilot").fetch(FakeWeb(down)))


def test_gpuhunt_reads_the_version_first() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr(
            "aws.csv",
            "instance_name,location,price,gpu_count,gpu_name,gpu_memory,spot\np5.48xlarge,us-east-1,55.04,8,H100,80,False\n",
        )
    web = FakeWeb(lambda url, _: b"20261130-7" if url.endswith("version") else body.getvalue())
    payloads = list(source_named("gpu-prices/gpuhunt").fetch(web))
    assert payloads[0].url.endswith("/v3/aws/20261130-7/catalog.zip")
    rows = source_named("gpu-prices/gpuhunt").parse(payloads[0]).frames["market.gpu_offers"]
    assert rows.select("price_usd_per_gpu_hour", "observed_at").rows() == [
        (6.88, dt.datetime(2026, 11, 30, tzinfo=dt.UTC))
    ]
