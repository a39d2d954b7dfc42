#include "report/style.h"

namespace muster::report {

const char* const kStyleSheet = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1a1f29; --soft: #5b6473; --faint: #8b94a3; --line: #e3e7ed;
  --good: #1a7f4b; --good-bg: #e3f5ea; --bad: #b3261e; --bad-bg: #fbe6e4; --neutral-bg: #eceff3;
  --s1: #2563c9; --s2: #d9622b; --s3: #7a4fc4; --s4: #168a7d; --s5: #b8860b;
  --m-parameters: #2c5fae; --m-master: #5c93d9; --m-optimizer: #93bdf0; --m-gradients: #7d5bbe;
  --m-input: #57a773; --m-activations: #e8853d; --m-temporary: #f3b95f; --m-communication: #1f9e96;
  --m-other: #aab2bf; --m-scratch: #d4d9e0;
  --forward: #3f7fd6; --backward: #8a63cf; --update: #2f9c6e; --other: #9aa4b3; --message: #e07b39;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151a; --card: #1a1e25; --ink: #e6e9ee; --soft: #a3acba; --faint: #768090; --line: #2a303a;
    --good: #63d297; --good-bg: #15331f; --bad: #ff8a80; --bad-bg: #421c19; --neutral-bg: #262c35;
    --s1: #6ea4f7; --s2: #f29061; --s3: #b394ee; --s4: #4cc4b5; --s5: #e0b54a;
    --m-parameters: #3f78cc; --m-master: #6aa0e6; --m-optimizer: #a3c8f5; --m-gradients: #9577d6;
    --m-input: #6bbd88; --m-activations: #e58a49; --m-temporary: #e6b566; --m-communication: #35b3aa;
    --m-other: #7b8494; --m-scratch: #4d5563;
    --forward: #5b95e6; --backward: #a07de0; --update: #45b585; --other: #79838f; --message: #ec915a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 36px 20px 60px; }
.brand { margin: 0; color: var(--faint); font-size: 13px; letter-spacing: .04em; }
h1 { margin: 2px 0 4px; font-size: 32px; line-height: 1.2; letter-spacing: -.015em; overflow-wrap: anywhere; }
.subtitle { margin: 0 0 24px; color: var(--soft); }
h2 { margin: 0 0 2px; font-size: 20px; letter-spacing: -.01em; }
h3 { margin: 18px 0 6px; font-size: 14px; font-weight: 600; }
.lead { margin: 0 0 14px; color: var(--soft); font-size: 14px; max-width: 75ch; }
.fine { color: var(--faint); font-size: 12.5px; margin: 2px 0 6px; }
a { color: var(--s1); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 12px; }
.card, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 14px 16px; }
.card h3 { margin: 0; color: var(--soft); font-size: 13px; font-weight: 500; }
.card .value { margin: 2px 0 4px; font-size: 28px; font-weight: 620; line-height: 1.2; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.card .value small { margin-left: 5px; font-size: 14px; font-weight: 450; color: var(--soft); letter-spacing: 0; }
.card .below { color: var(--soft); font-size: 13px; }
section { margin-top: 18px; padding: 22px 24px; }
.badge { display: inline-block; padding: 1px 8px; border-radius: 9px; font-size: 12.5px; overflow-wrap: anywhere; }
.badge.good { color: var(--good); background: var(--good-bg); }
.badge.bad { color: var(--bad); background: var(--bad-bg); }
.badge.unknown { color: var(--soft); background: var(--neutral-bg); }
.missing { margin: 8px 0; padding: 10px 14px; border: 1px dashed var(--line); border-radius: 8px; color: var(--soft);
  overflow-wrap: anywhere; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 8px 40px; }
dl { display: grid; grid-template-columns: max-content 1fr; margin: 0; font-size: 14px; }
dt, dd { margin: 0; padding: 4px 0; border-bottom: 1px solid var(--line); }
dt { padding-right: 20px; color: var(--soft); }
dd { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
details { margin-top: 18px; }
summary { cursor: pointer; color: var(--soft); font-size: 14px; }
pre { overflow: auto; padding: 14px; border-radius: 8px; background: var(--page); font-size: 12.5px; line-height: 1.5; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; margin-top: 10px; font-size: 14px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; font-size: 12.5px; text-align: left; vertical-align: bottom; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; }
.same { color: var(--good); font-weight: 600; }
.differs { color: var(--bad); font-weight: 600; }
.nothing { color: var(--faint); }
.share { display: inline-block; width: 90px; height: 8px; margin-right: 10px; border-radius: 4px;
  background: var(--neutral-bg); overflow: hidden; }
.share-text { display: inline-block; min-width: 52px; }
.share i { display: block; height: 100%; background: var(--s1); }
.grid-2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 8px 24px; }
.chart { position: relative; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .title { fill: var(--faint); }
.grid { fill: none; stroke: var(--line); }
.axis { fill: none; stroke: var(--faint); }
.line { fill: none; stroke-width: 1.7; stroke-linejoin: round; stroke-linecap: round; }
.small .line { stroke-width: 1.5; }
.series-1 { stroke: var(--s1); } .series-2 { stroke: var(--s2); } .series-3 { stroke: var(--s3); }
.series-4 { stroke: var(--s4); } .series-5 { stroke: var(--s5); }
.dot { stroke-width: 1.6; fill: var(--card); }
.mark { fill: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 6px 0 8px; color: var(--soft); font-size: 13px; }
.key-title { color: var(--faint); }
.swatch { display: inline-block; width: 11px; height: 11px; margin-right: 6px; border-radius: 3px; vertical-align: -1px; }
.swatch.series-1 { background: var(--s1); } .swatch.series-2 { background: var(--s2); }
.swatch.series-3 { background: var(--s3); } .swatch.series-4 { background: var(--s4); }
.swatch.series-5 { background: var(--s5); }
.memory-parameters { fill: var(--m-parameters); background: var(--m-parameters); }
.memory-master_parameters { fill: var(--m-master); background: var(--m-master); }
.memory-gradients { fill: var(--m-gradients); background: var(--m-gradients); }
.memory-optimizer { fill: var(--m-optimizer); background: var(--m-optimizer); }
.memory-activations { fill: var(--m-activations); background: var(--m-activations); }
.memory-temporary { fill: var(--m-temporary); background: var(--m-temporary); }
.memory-communication { fill: var(--m-communication); background: var(--m-communication); }
.memory-input { fill: var(--m-input); background: var(--m-input); }
.memory-scratch { fill: var(--m-scratch); background: var(--m-scratch); }
.memory-other { fill: var(--m-other); background: var(--m-other); }
.peak-line { stroke: var(--ink); stroke-dasharray: 2 3; opacity: .55; }
.peak-dot { fill: var(--ink); stroke: var(--card); stroke-width: 2; }
svg .peak-text { fill: var(--ink); font-weight: 600; font-size: 12px; paint-order: stroke; stroke: var(--card);
  stroke-width: 4px; stroke-linejoin: round; }
.phase-forward { fill: var(--forward); background: var(--forward); }
.phase-backward { fill: var(--backward); background: var(--backward); }
.phase-update { fill: var(--update); background: var(--update); }
.phase-other { fill: var(--other); background: var(--other); }
.message { fill: var(--message); background: var(--message); }
.span { opacity: .55; }
.bar { stroke: var(--card); stroke-width: .4; }
.bar:hover { filter: brightness(1.2); }
svg .bar-text { fill: #fff; font-size: 11px; pointer-events: none; }
svg .lane-name { fill: var(--ink); font-size: 12px; }
.time-bar { display: flex; height: 26px; margin: 4px 0 12px; border-radius: 6px; overflow: hidden; gap: 1px; }
.time-bar i { display: block; }
.time-steps { background: var(--s1); } .time-start { background: var(--s3); } .time-data { background: var(--s5); }
.time-communication { background: var(--s2); } .time-evaluation { background: var(--s4); }
.time-checkpoints { background: var(--other); }
.time-state-file { background: var(--m-optimizer); }
.switch > input { position: absolute; opacity: 0; }
.switch > label { display: inline-block; padding: 2px 11px; margin: 0 2px 8px 0; border: 1px solid var(--line);
  border-radius: 8px; color: var(--soft); font-size: 13px; cursor: pointer; }
.switch > input:checked + label { color: var(--ink); background: var(--neutral-bg); border-color: var(--faint); }
.switch > input:focus-visible + label { outline: 2px solid var(--s1); }
.when-second { display: none; }
#loss-log:checked ~ .when-first { display: none; }
#loss-log:checked ~ .when-second { display: block; }
.say { position: absolute; z-index: 2; pointer-events: none; padding: 6px 9px; border-radius: 7px; white-space: pre;
  background: var(--ink); color: var(--page); font-size: 12px; line-height: 1.4; font-variant-numeric: tabular-nums; }
.hair { stroke: var(--faint); stroke-dasharray: 3 3; }
footer { margin-top: 22px; color: var(--faint); font-size: 12.5px; }
@media print {
  :root { --page: #fff; }
  main { padding: 0; max-width: none; }
  section, .card { break-inside: avoid; }
  .switch > label, details { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

// Says what stands nearest to the pointer: the places and texts are in the picture's own attributes.
const char* const kHoverScript = R"js(
for (const svg of document.querySelectorAll('svg[data-at]')) {
  const at = JSON.parse(svg.dataset.at), say = JSON.parse(svg.dataset.say), view = svg.viewBox.baseVal;
  if (!at.length) continue;
  const box = document.createElement('div');
  box.className = 'say';
  box.hidden = true;
  const hair = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  hair.setAttribute('class', 'hair');
  svg.append(hair);
  svg.parentElement.append(box);
  const nearest = x => {
    let low = 0, high = at.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at[middle] < x) low = middle + 1; else high = middle;
    }
    return low && x - at[low - 1] < at[low] - x ? low - 1 : low;
  };
  svg.addEventListener('pointermove', event => {
    const area = svg.getBoundingClientRect(), scale = area.width / view.width;
    const index = nearest((event.clientX - area.left) / scale);
    box.textContent = say[index];
    box.hidden = false;
    const x = svg.offsetLeft || area.left - svg.parentElement.getBoundingClientRect().left;
    const left = x + at[index] * scale + 12;
    box.style.left = Math.max(0, left + box.offsetWidth > area.width ? left - box.offsetWidth - 24 : left) + 'px';
    box.style.top = (event.clientY - svg.parentElement.getBoundingClientRect().top - 12) + 'px';
    hair.setAttribute('d', 'M' + at[index] + ' 14V' + (view.height - 40));
  });
  svg.addEventListener('pointerleave', () => { box.hidden = true; hair.removeAttribute('d'); });
}
)js";

}  // namespace muster::report
