// What the pages do beyond links and forms: all of it works without, only less comfortably.
"use strict";

// A button that cannot be undone asks first.
document.addEventListener("submit", (event) => {
  const asked = event.submitter?.dataset.ask;
  if (asked && !window.confirm(asked)) event.preventDefault();
});

// A form whose answer is a file leaves the page as it is: the page says that it was sent.
document.addEventListener("submit", ({ target }) => target.querySelector("[data-sent]")?.removeAttribute("hidden"));

// The menu begins where one is: on a telephone it is wider than the screen.
const menu = document.querySelector(".top nav");
const here = menu?.querySelector("[aria-current]");
if (here) menu.scrollLeft = here.offsetLeft - menu.offsetLeft - (menu.clientWidth - here.offsetWidth) / 2;

// An element with data-every is loaded again so often (seconds), while the page can be seen.
const refreshing = () => {
  for (const element of document.querySelectorAll("[data-every]")) {
    if (element.dataset.refreshing) continue;
    element.dataset.refreshing = "yes";
    const timer = setInterval(() => {
      if (!element.isConnected) clearInterval(timer);
      else if (document.visibilityState === "visible") window.htmx.trigger(element, "refresh");
    }, Number(element.dataset.every) * 1000);
  }
};

// Times are UTC in the page; the reader's own time is in the hint.
const localTimes = () => {
  for (const element of document.querySelectorAll("time[datetime]:not([title])"))
    element.title = new Date(element.dateTime).toLocaleString(undefined, { timeZoneName: "short" });
};

document.addEventListener("DOMContentLoaded", () => {
  refreshing();
  localTimes();
});
// What the reader has opened stays open when a part of the page is refreshed; what was loaded may be refreshed in its turn.
let opened = [];
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  // A bad value: the whole page, whose form says what is wrong; and when it is mended.
  if (detail.xhr.status === 400 || document.querySelector("[aria-invalid]"))
    Object.assign(detail, { shouldSwap: true, target: document.getElementById("main"), selectOverride: "#main", swapOverride: "outerHTML" });
  opened = [...document.querySelectorAll("details[open][id]")].map((element) => element.id);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  refreshing();
  localTimes();
});
