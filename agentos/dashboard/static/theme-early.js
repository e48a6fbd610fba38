// Runs before the first paint, so that a page chosen dark never flashes light.
try {
  document.documentElement.dataset.theme = localStorage.getItem("agentos-theme") ?? "auto";
} catch {
  document.documentElement.dataset.theme = "auto";
}
