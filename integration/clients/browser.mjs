// Opens a page in headless Chromium and prints what it logs, up to how it went:
// browser.mjs CHROMIUM URL
import { chromium } from "playwright-core";

const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root
try {
  const page = await browser.newPage();
  const done = Promise.withResolvers();
  page.on("console", (message) => {
    const text = message.text();
    console.log(text);
    if (text === "all passed") done.resolve();
    if (text === "some failed") done.reject(new Error(text));
  });
  page.on("pageerror", (err) => done.reject(err));
  page.on("crash", () => done.reject(new Error("the page crashed")));
  await page.goto(url);
  await done.promise;
} finally {
  await browser.close();
}
