// Keys for lists and units. Everything that they do can be done without them.
(() => {
  const HELP = [
    ["/", "Search, or the first field of a page"],
    ["j, k", "Next and previous row"],
    ["Arrows", "Move in a calendar; dragging selects its days, too"],
    ["Enter", "Open the row"],
    ["x", "Select the row or the day"],
    ["r", "Preview a retry of the selected rows, of the row or of the unit"],
    ["?", "Show the keys"],
    ["Esc", "Close, or leave a field"],
  ];
  const OFF = "redrive-keys-off";
  const rows = () => [...document.querySelectorAll("tr[data-key]")];
  const current = () => document.activeElement && document.activeElement.closest("tr[data-key], .calendar td");
  const focusRow = (row) => row && row.querySelector("a[href]").focus();

  const move = (step) => {
    const all = rows(), at = all.indexOf(current());
    focusRow(at < 0 ? all[0] : all[Math.min(Math.max(at + step, 0), all.length - 1)]);
  };
  const boxOf = (place) => place && place.querySelector("input[name=ids]");
  const select = (place) => { const box = boxOf(place); if (box) box.click(); };

  // The next day with an entry in a direction.
  const moveInCalendar = (across, down) => {
    let cell = document.activeElement && document.activeElement.closest(".calendar td");
    if (!cell) return false;
    do {
      const row = down > 0 ? cell.parentElement.nextElementSibling : down < 0 ? cell.parentElement.previousElementSibling : cell.parentElement;
      cell = row && row.cells[cell.cellIndex + across];
    } while (cell && !cell.querySelector("a"));
    if (cell) cell.querySelector("a").focus();
    return true;
  };

  // Dragging over days selects all between the first and the last, or none of them if the first was selected. Touching
  // scrolls instead.
  const dayOf = (event) => event.target.closest && event.target.closest(".calendar td");
  const isBetween = (a, b, at) => (a <= at && at <= b) || (b <= at && at <= a);
  let first = null, before = new Map(), dragged = false;
  document.addEventListener("pointerdown", (event) => {
    const isMouse = event.pointerType === "mouse" && event.button === 0;
    [first, dragged] = [isMouse ? dayOf(event) : null, false];
    if (first) before = new Map([...first.closest("table").querySelectorAll("input[name=ids]")].map((box) => [box, box.checked]));
  });
  document.addEventListener("pointerover", (event) => {
    const last = first && dayOf(event);
    if (!last || !before.size || (last === first && !dragged)) return;
    dragged = true;
    for (const [box, checked] of before) {
      const day = box.closest("td");
      const isChosen = isBetween(first.cellIndex, last.cellIndex, day.cellIndex)
        && isBetween(first.parentElement.rowIndex, last.parentElement.rowIndex, day.parentElement.rowIndex);
      box.checked = isChosen ? !before.get(boxOf(first)) : checked;
    }
  });
  document.addEventListener("pointerup", () => { first = null; });
  document.addEventListener("dragstart", (event) => { if (dayOf(event)) event.preventDefault(); });
  document.addEventListener("click", (event) => {
    if (dragged && dayOf(event)) event.preventDefault();
    dragged = false;
  }, true);
  const retry = () => {
    const form = document.getElementById("selected");
    if (form) {
      if (!document.querySelector("input[name=ids]:checked")) select(current());
      if (document.querySelector("input[name=ids]:checked")) form.requestSubmit(form.querySelector("button"));
      return;
    }
    const unit = document.querySelector("[data-preview]");
    if (unit) location.href = unit.dataset.preview;
  };
  const search = () => {
    const field = document.querySelector("main input[type=search], main input[type=text]");
    const folded = field && field.closest("details");
    if (folded) folded.open = true;
    if (field) field.focus();
  };

  const element = (name, text, ...children) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  };
  const help = document.createElement("dialog");
  help.setAttribute("aria-labelledby", "keys");
  const title = element("h2", "Keys");
  title.id = "keys";
  const list = element("dl");
  for (const [key, what] of HELP) list.append(element("dt", "", element("kbd", key)), element("dd", what));
  const off = element("input");
  off.type = "checkbox";
  off.checked = !localStorage.getItem(OFF);
  off.onchange = () => { if (off.checked) localStorage.removeItem(OFF); else localStorage.setItem(OFF, "1"); };
  const label = element("label", "", off, " Use keys");
  label.className = "check";
  const close = element("button", "Close");
  close.onclick = () => help.close();
  help.append(title, list, label, close);
  const open = element("button", "Keys (?)");
  open.className = "link";
  open.onclick = () => help.showModal();
  document.querySelector("footer").append(" · ", open);
  document.body.append(help);

  const ACTIONS = { "/": search, "?": () => help.showModal(), j: () => move(1), k: () => move(-1), x: () => select(current()), r: retry };
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const isTyping = target.closest("textarea, select, [contenteditable], input:not([type=checkbox])");
    if (key === "Escape" && isTyping) target.blur();
    if (event.ctrlKey || event.altKey || event.metaKey || isTyping || help.open) return;
    const arrow = ARROWS[key];
    if (arrow && moveInCalendar(...arrow)) { event.preventDefault(); return; }
    if (!ACTIONS[key] || (localStorage.getItem(OFF) && key !== "?")) return;
    event.preventDefault();
    ACTIONS[key]();
  });
})();
