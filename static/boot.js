// Loads the page's program: sets the theme, shows the download, and says in plain words why it could not start.
// An external module, because the page's Content-Security-Policy forbids inline scripts. Trunk writes the addresses
// of the program into this script's data attributes (pattern_script in Trunk.toml).

const THEME_KEY = "glassbroker.theme";

function setTheme() {
  let theme = null;
  try {
    theme = localStorage.getItem(THEME_KEY);
  } catch {
    // Storage is forbidden here (a privacy setting): follow the system.
  }
  if (theme !== "dark" && theme !== "light") {
    theme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  }
  document.documentElement.dataset.theme = theme;
}

function kilobytes(bytes) {
  return `${Math.round(bytes / 1000).toLocaleString("en")} kB`;
}

function showProgress(received, total) {
  const progress = document.getElementById("loader-progress");
  const text = document.getElementById("loader-text");
  if (!progress || !text) return;
  if (total) {
    progress.max = total;
    progress.value = Math.min(received, total);
    text.textContent = `Loading the cluster: ${kilobytes(received)} of ${kilobytes(total)}.`;
  } else {
    text.textContent = `Loading the cluster: ${kilobytes(received)}.`;
  }
}

function showFailure(sentence, error) {
  console.error(error);
  const loader = document.getElementById("loader");
  // Without the panel the program has drawn already, and its own card tells what happened.
  if (!loader) return;
  const panel = document.createElement("div");
  panel.className = "loader-failed";
  panel.setAttribute("role", "alert");
  const text = document.createElement("p");
  text.textContent = sentence;
  const detail = document.createElement("code");
  detail.textContent = String(error);
  panel.append(text, detail);
  document.getElementById("loader-text")?.remove();
  document.getElementById("loader-progress")?.remove();
  loader.append(panel);
}

// The response again, with its body counted as it passes. Content-Length counts what the host sent, so it says
// nothing about a compressed body: then only the bytes so far are shown.
function counted(response) {
  const compressed = response.headers.has("Content-Encoding");
  const total = compressed ? 0 : Number(response.headers.get("Content-Length")) || 0;
  let received = 0;
  const counter = new TransformStream({
    transform(chunk, controller) {
      received += chunk.byteLength;
      showProgress(received, total);
      controller.enqueue(chunk);
    },
  });
  // Some hosts send another type, which streaming compilation would refuse.
  return new Response(response.body.pipeThrough(counter), { headers: { "Content-Type": "application/wasm" } });
}

async function download(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} answered ${response.status} ${response.statusText}`);
  return counted(response);
}

async function start() {
  const script = document.querySelector("script[data-js][data-wasm]");
  const js = new URL(script.dataset.js, document.baseURI);
  const wasm = new URL(script.dataset.wasm, document.baseURI);
  if (typeof WebAssembly !== "object") {
    showFailure("This browser does not run WebAssembly, or a setting forbids it.", "WebAssembly is not defined");
    return;
  }
  try {
    const [glue, program] = await Promise.all([import(js), download(wasm)]);
    await glue.default({ module_or_path: program });
  } catch (error) {
    showFailure("The page could not load its program. Reload it; if that does not help, the host lacks a file.", error);
  }
}

document.querySelector(".loader-hint")?.remove();
setTheme();
start();
