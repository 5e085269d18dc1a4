// Opens the documentation pages in headless Chromium and tries an operation out
// on each: docs.mjs CHROMIUM URL... The credential is in APP and TOKEN. Prints
// what each page did that it must not, and "ok URL" for one that did nothing.
import { chromium } from "playwright-core";

const [executablePath, ...urls] = process.argv.slice(2);
const { APP: app, TOKEN: token } = process.env;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root

// tryOut opens an operation, executes it and gives the HTTP status.
async function tryOut(page) {
  const operation = page.locator(".opblock", { hasText: "/v1/echo:shout" });
  await operation.locator(".opblock-summary").click();
  await operation.locator(".try-out__btn").click();
  await operation.locator("textarea.body-param__text").fill(`{"text": "tried out"}`);
  await operation.locator("button.execute").click();
  return operation.locator(".live-responses-table tbody .response-col_status").first().innerText();
}

let failed = false;
for (const url of urls) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (err) => faults.push(String(err)));
  const loaded = [];
  page.on("request", (request) => loaded.push(request.url()));
  await page.goto(url);
  await page.locator(".opblock").first().waitFor();
  for (const at of loaded) {
    if (!at.startsWith(new URL(url).origin) && !at.startsWith("data:")) faults.push(`it loads ${at}`);
  }
  await page.evaluate(([app, token]) => {
    window.ui.authActions.authorize({ bearer: { name: "bearer", schema: { type: "http", scheme: "bearer" }, value: `${app}.${token}` } });
  }, [app, token]);
  const status = await tryOut(page);
  if (!status.startsWith("200")) faults.push(`the operation answered ${status}`);
  for (const fault of faults) console.log(`${url}: ${fault}`);
  if (faults.length === 0) console.log(`ok ${url}`);
  failed ||= faults.length > 0;
  await context.close();
}
await browser.close();
process.exitCode = failed ? 1 : 0;
