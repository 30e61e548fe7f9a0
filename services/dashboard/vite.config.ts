import { defineConfig } from "vite";

const GATEWAY = process.env["MUSTER_HTTP"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    outDir: "../muster/gateway/static",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // the content security policy allows no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/v1": GATEWAY } },
});
