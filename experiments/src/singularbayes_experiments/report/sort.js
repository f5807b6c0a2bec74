// A click on a head sorts its table: numbers by data-value, empty ones last; a second click turns the order round.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
    const first = head.dataset.first === "descending" ? -1 : 1;
    const sign = head.ariaSort === (first < 0 ? "descending" : "ascending") ? -first : first;
    const value = (row) => Number.parseFloat(row.cells[head.cellIndex].dataset.value);
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      return Number.isNaN(x) - Number.isNaN(y) || sign * (x - y) || a.dataset.place - b.dataset.place;
    });
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.ariaSort = sign < 0 ? "descending" : "ascending";
    body.append(...rows);
  });
}
