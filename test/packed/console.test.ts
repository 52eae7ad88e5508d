import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { directoryIn, nodeOf, nodeVersions, packed, run, Service } from './app.ts'

it.for(nodeVersions)('the console starts from the package, with its page, on Node.js %s', async (version, context) => {
  const told = packed(context)
  const cwd = directoryIn(told.project)
  const node = nodeOf(told, version)
  const program = join(told.project, 'node_modules', 'hapax', 'dist', 'cli', 'main.js')
  const store = ['--store', 'sqlite:shop.db']
  expect(await run(node, ['--no-warnings', program, 'migrate', ...store], { cwd })).toMatchObject({ code: 0 })
  const opened = new Service(node, ['--no-warnings', program, 'console', ...store, '--json'], { cwd })
  await opened.printed('}')
  const { url } = JSON.parse(opened.stdout)
  const page = await (await fetch(url)).text()
  const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file = '']) => file)
  expect(files.length).toBeGreaterThan(1)
  for (const file of files) expect([file, (await fetch(new URL(file, url))).status]).toEqual([file, 200])
  opened.kill('SIGINT')
  expect((await opened.ended).code).toBe(0)
})

it('the package contains the page once, and nothing that users would have to install for it', (context) => {
  const root = join(packed(context).project, 'node_modules', 'hapax')
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  expect(Object.keys(dependencies)).toEqual(['commander'])
  expect(() => readFileSync(join(root, 'src', 'console', 'static', 'app.js'))).toThrow('ENOENT')
})
