"use strict";

async function unpacked(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function themed(layout, paper) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name, onPaper) => (paper ? onPaper : style.getPropertyValue(name).trim());
  const narrow = !paper && window.innerWidth < 600;
  const axis = (name, old) => ({
    ...old,
    // The left margin is the same in all pictures, whatever stands in it.
    automargin: name.startsWith("x"),
    gridcolor: colour("--rule", "#cccccc"),
    linecolor: colour("--rule", "#cccccc"),
    zerolinecolor: colour("--rule", "#cccccc"),
  });
  const themedLayout = {
    ...layout,
    autosize: true,
    dragmode: narrow ? false : "zoom",
    font: { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: colour("--ink", "#000000") },
    hoverlabel: { align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft", "#444444"), activecolor: colour("--ink", "#000000") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: layout.margin.l * (narrow ? 11 / 13 : 1), r: narrow ? 10 : 20, t: narrow ? 10 : 30, b: layout.showlegend ? 75 : 45 },
    legend: { ...layout.legend, orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom" },
  };
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
    themedLayout[name] = axis(name, layout[name]);
  }
  return themedLayout;
}

// The pictures over time show the same time: what is chosen in one is shown in all.
function follow(ids) {
  let following = false;
  for (const id of ids) {
    document.getElementById(id).on("plotly_relayout", async (change) => {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (following || range[0] === undefined) return;
      following = true;
      const others = ids.filter((other) => other !== id);
      await Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": range })));
      following = false;
    });
  }
}

async function draw() {
  const code = document.createElement("script");
  code.textContent = await unpacked("plotly");
  document.head.append(code);
  const pictures = JSON.parse(await unpacked("pictures"));
  const buttons = [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const drawAll = (paper) => {
    const modebar = window.innerWidth < 600 ? { displayModeBar: false } : { modeBarButtons: buttons };
    for (const [id, { data, layout }] of Object.entries(pictures)) {
      Plotly.react(id, data, themed(layout, paper), { responsive: true, displaylogo: false, ...modebar });
    }
  };
  drawAll(false);
  follow(Object.keys(pictures).filter((id) => document.getElementById(id).dataset.over === "time"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(false));
  matchMedia("(max-width: 599px)").addEventListener("change", () => drawAll(false));
  window.addEventListener("beforeprint", () => drawAll(true));
  window.addEventListener("afterprint", () => drawAll(false));
}

draw().catch((error) => {
  const problem = document.getElementById("problem");
  problem.textContent = `The pictures cannot be drawn by this browser: ${error}`;
  problem.hidden = false;
});
