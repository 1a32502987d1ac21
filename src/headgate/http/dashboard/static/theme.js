// Runs before the page is drawn, so that no other theme is seen first.
document.documentElement.classList.add("script");
try {
  const theme = localStorage.getItem("headgate-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* Storage is switched off: the system's theme stands. */ }
