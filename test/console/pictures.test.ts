import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { closeBrowser, openTab, withoutBrowser } from '../support/console/browser.ts'
import { fixtureServer } from '../support/console/fixture-server.ts'
import { root } from '../support/pages.ts'

afterAll(closeBrowser)

interface Picture {
  readonly name: string
  readonly path: string
  readonly scheme: 'light' | 'dark'
  /** A button that is pressed before. */
  readonly press?: string
  readonly width?: number
}

const PICTURES: readonly Picture[] = [
  { name: 'overview', path: '', scheme: 'light' },
  { name: 'overview-dark', path: '', scheme: 'dark' },
  { name: 'failed', path: 'failed', scheme: 'light' },
  { name: 'retry', path: 'failed', scheme: 'light', press: 'Retry all like order.placed of billing' },
  { name: 'message', path: 'message?id=01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e5f', scheme: 'dark' },
  { name: 'narrow', path: 'failed', scheme: 'light', width: 360 },
]

/** `npm run console:pictures` puts them where the documentation shows them; other runs see whether they can be made. */
const kept = process.env['HAPAX_TEST_PICTURES'] === 'keep'

describe.skipIf(withoutBrowser)('the pictures of the documentation', () => {
  const folder = kept ? join(root, 'docs', 'console') : mkdtempSync(join(tmpdir(), 'hapax-pictures-'))
  mkdirSync(folder, { recursive: true })

  afterAll(() => {
    if (!kept) rmSync(folder, { recursive: true, force: true })
  })

  test.for(PICTURES)('$name can be made', async ({ name, path, scheme, press, width = 1280 }) => {
    const { url, server } = await fixtureServer((_, sensible) => sensible)
    await using tab = await openTab(url, { scheme, width, height: 800 })
    const { page } = tab
    await page.goto(path)
    await page.locator('.fresh').getByText('updated').waitFor({ state: 'attached' })
    if (path === '') await page.locator('.uplot').nth(3).waitFor()
    if (press !== undefined) await page.getByRole('button', { name: press }).first().click()
    if (press !== undefined) await page.getByText('Exactly').waitFor()
    const picture = await page.screenshot({ path: join(folder, `${name}.png`) })
    server.close()
    expect(picture.byteLength).toBeGreaterThan(10_000)
    expect(tab.complaints).toEqual([])
  })
})
