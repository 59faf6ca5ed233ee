"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const specs = JSON.parse(document.getElementById("charts").textContent);

  function look() {
    const ink = dark.matches ? "#d8dee6" : "#2b3440";
    const soft = dark.matches ? "#98a3b0" : "#5b6673";
    const line = dark.matches ? "#39434e" : "#dfe4ea";
    const narrow = document.documentElement.clientWidth < 560;
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent",
      font: font,
      view: { stroke: null },
      axis: {
        labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line,
        labelFontSize: narrow ? 10 : 12, titleFontSize: narrow ? 10 : 12, titleFontWeight: "normal",
        labelOverlap: true, labelLimit: narrow ? 110 : 220
      },
      legend: {
        labelColor: ink, titleColor: soft, orient: "top", labelFontSize: narrow ? 10 : 12, titleFontSize: narrow ? 10 : 12,
        columns: narrow ? 2 : 5, labelLimit: narrow ? 150 : 190, symbolStrokeWidth: 2, titleFontWeight: "normal"
      },
      text: { color: ink, fontSize: narrow ? 10 : 12 },
      rule: { color: soft },
      range: { category: ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#8C8C8C", "#A6761D"] }
    };
  }

  function draw() {
    specs.forEach(function (spec, index) {
      const place = document.getElementById("chart" + (index + 1));
      window.vegaEmbed(place, spec, {
        mode: "vega-lite", renderer: "svg", ast: true, actions: false, config: look(), tooltip: { theme: dark.matches ? "dark" : "light" }
      }).catch(function (error) {
        place.textContent = String(error);
      });
    });
  }

  draw();
  dark.addEventListener("change", draw);
})();
