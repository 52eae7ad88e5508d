import { describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }

describe('the package', () => {
  it('has no script that npm would run, or warn of, when it is installed', () => {
    expect(Object.keys(manifest.scripts)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(pre|post)?(install|prepare)$/)]),
    )
  })

  it('names the types of each entry point also for compilers that do not read exports', () => {
    const entries = Object.entries(manifest.exports).flatMap(([name, entry]) =>
      typeof entry === 'string' ? [] : [[name.replace('./', ''), entry.types.replace('./', '')] as const],
    )
    const { '.': main, ...others } = Object.fromEntries(entries)
    expect(manifest.types).toBe(`./${main}`)
    const named = Object.entries(manifest.typesVersions['*']).map(([name, files]) => [name, files.join()])
    expect(Object.fromEntries(named)).toEqual(others)
  })
})
