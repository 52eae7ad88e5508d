import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { unsupportedNode } from '../../src/base/node-version.ts'

it.for(['22.18.0', '22.30.1', '24.0.0', '26.10.0'])('Node.js %s is supported', (version) => {
  expect(unsupportedNode(version)).toBeUndefined()
})

it.for(['18.20.8', '20.19.0', '22.17.1', '23.11.1'])('Node.js %s is refused in one sentence', (version) => {
  expect(unsupportedNode(version)).toBe(`hapax needs Node.js 22.18 or later, except 23; this is Node.js ${version}`)
})

it('engines says the same', () => {
  expect(manifest.engines.node).toBe('^22.18.0 || >=24.0.0')
})
