import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { installed, orSkip } from '../support/registry.ts'
import { directoryIn, packed, run } from './app.ts'

/** Compilers of which a project has one, and how each finds modules. */
const compilers = {
  '5.9.3': [
    ['commonjs', 'node10'],
    ['esnext', 'node10'],
    ['esnext', 'bundler'],
    ['preserve', 'bundler'],
    ['node20', 'node16'],
    ['nodenext', 'nodenext'],
  ],
  [manifest.devDependencies.typescript]: [
    ['commonjs', 'bundler'],
    ['esnext', 'bundler'],
    ['preserve', 'bundler'],
    ['node20', 'node16'],
    ['nodenext', 'nodenext'],
  ],
}

/** A CommonJS file that imports every entry point, and uses the types of two. */
const entries = Object.keys(manifest.exports).filter((name) => name !== './package.json')
const program = `
${entries.map((name, index) => `import * as entry${index} from '${name.replace('.', 'hapax')}'`).join('\n')}
import { defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'

export const all = [${entries.map((_, index) => `entry${index}`).join(', ')}]
export const OrderPlaced = defineMessage<{ orderId: string }>('order.placed', { key: (order) => order.orderId })
// @ts-expect-error: the types are those of the package, and not any.
postgres({ pool: 1 })
`

it('every entry point has its types in CommonJS, under every module and moduleResolution that finds ES modules', async (context) => {
  const { project } = packed(context)
  const cwd = directoryIn(project)
  writeFileSync(join(cwd, 'package.json'), JSON.stringify({ type: 'commonjs' }))
  writeFileSync(join(cwd, 'app.ts'), program)
  for (const [typescript, settings] of Object.entries(compilers)) {
    const tsc = join(await orSkip(installed({ typescript }), context.skip), 'node_modules/typescript/bin/tsc')
    for (const [module = '', moduleResolution = ''] of settings) {
      const options = ['--strict', '--skipLibCheck', '--noEmit', '--target', 'es2023', '--types', 'node']
      const found = ['--module', module, '--moduleResolution', moduleResolution]
      const { stdout } = await run(process.execPath, [tsc, ...options, ...found, 'app.ts'], { cwd })
      expect.soft(stdout, `TypeScript ${typescript}, ${module}, ${moduleResolution}`).toBe('')
    }
  }
})
