// Builds the console's page into src/console/static, from where its server reads it: `node scripts/build-console.ts`. What the page is
// made of (Preact, signals, uPlot) becomes a part of these files, so that users of hapax install nothing for it.
import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

const root = join(import.meta.dirname, '..')
const page = join(root, 'src', 'console', 'page')
const target = join(root, 'src', 'console', 'static')

rmSync(target, { recursive: true, force: true })
mkdirSync(target, { recursive: true })
await build({
  entryPoints: { app: join(page, 'main.tsx') },
  outdir: target,
  bundle: true,
  minify: true,
  format: 'esm',
  // What draws charts is a file of its own, loaded where there are charts.
  splitting: true,
  chunkNames: 'charts',
  target: ['chrome111', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  // What the CSS of uPlot and the licences say stays beside the code that they are about.
  legalComments: 'inline',
  logLevel: 'warning',
})
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(page, name), join(target, name))
