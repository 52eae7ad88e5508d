import { join } from 'node:path'
import { expect, it } from 'vitest'
import { directoryIn, javascript, nodeOf, packed, run } from './app.ts'
import { REFUSED } from './setup.ts'

it.for(REFUSED)(
  'Node.js %s is refused in one sentence by the library and by the command line',
  async (version, context) => {
    const told = packed(context)
    const sentence = `hapax needs Node.js 22.18 or later, except 23; this is Node.js ${version}`
    const cwd = directoryIn(told.project)
    const start = (text: string) => run(nodeOf(told, version), [javascript(cwd, text)], { cwd })
    const imported = await start(
      `import('hapax/sqlite').catch(({ code, message }) => console.log(code + ': ' + message))`,
    )
    expect(imported.stdout).toBe(`unsupported-node: ${sentence}\n`)
    const created = await start(`
    import { createHapax } from 'hapax'
    import { postgres } from 'hapax/postgres'
    try {
      createHapax({ store: postgres({ url: 'postgres://localhost/shop' }), source: '/shop' })
    } catch ({ code, message }) {
      console.log(code + ': ' + message)
    }`)
    expect(created.stdout).toBe(`unsupported-node: ${sentence}\n`)
    const main = join(told.project, 'node_modules', 'hapax', 'dist', 'cli', 'main.js')
    expect(await run(nodeOf(told, version), [main, 'status'], { cwd })).toEqual({
      code: 1,
      stdout: '',
      stderr: `${sentence}\n`,
    })
  },
)
