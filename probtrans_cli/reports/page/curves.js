"use strict";
// What the curves of a chart are worth where the reader points, and a line there; the arrow keys move it, too.
for (const figure of document.querySelectorAll(".chart")) {
  const told = JSON.parse(figure.querySelector("script").textContent);
  const picture = figure.querySelector("svg"), text = figure.querySelector(".told");
  const cursor = picture.querySelector(".cursor");
  const steps = [...new Set(told.curves.flatMap((curve) => curve.steps))].sort((a, b) => a - b);
  const bottom = picture.viewBox.baseVal.height;
  let at = -1;

  const nearest = (sorted, value) => {
    let low = 0, high = sorted.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
  };

  const show = (index) => {
    at = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[at], range = told.to - told.from || 1;
    const x = told.left + (step - told.from) / range * (told.right - told.left);
    cursor.setAttribute("d", `M${x} 12V${bottom - 40}`);
    const values = told.curves.map((curve) => {
      const value = curve.shown[nearest(curve.steps, step)];
      return told.curves.length > 1 ? `${curve.name} ${value}` : value;
    });
    const more = values.length > 6 ? `, and ${values.length - 6} more` : "";
    text.textContent = `update ${Math.round(step).toLocaleString("en")}: ${values.slice(0, 6).join(", ")}${more}`;
  };
  const hide = () => { at = -1; cursor.setAttribute("d", ""); text.textContent = ""; };

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * picture.viewBox.baseVal.width;
    show(nearest(steps, told.from + (x - told.left) / (told.right - told.left) * (told.to - told.from)));
  });
  picture.addEventListener("pointerleave", hide);
  picture.tabIndex = 0;
  picture.addEventListener("blur", hide);
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") hide();
    else if (by !== undefined) { show(at < 0 ? (by > 0 && by < 2 ? 0 : by < -1 ? 0 : steps.length - 1) : at + by); event.preventDefault(); }
  });
}
