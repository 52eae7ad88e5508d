import { afterAll, describe, expect, test } from 'vitest'
import { closeBrowser, openTab, withoutBrowser } from '../support/console/browser.ts'
import { fixtureServer } from '../support/console/fixture-server.ts'
import type { Texts } from '../support/console/fixtures.ts'

afterAll(closeBrowser)

const PATHS = [
  ...['', 'consumers', 'relays', 'messages', 'message?id=x', 'failed', 'failed/list', 'failed/12', 'keys', 'effects'],
  ...['workers', 'retries', 'operations', 'operations/01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e00', 'audit', 'health'],
]
/** A telephone, a small window, a small screen, a laptop. */
const WIDTHS = [360, 830, 1024, 1280]

const long: Texts = (_, sensible) => `${sensible}-${'K'.repeat(300)} ${'and more '.repeat(50)}`

/** By how much something is wider than where it is. */
const OVER = `((box) => box.scrollWidth - box.clientWidth)`

describe.skipIf(withoutBrowser)('texts of any kind', () => {
  test.for<{ kind: string; texts: Texts }>([
    { kind: 'sensible', texts: (_, sensible) => sensible },
    { kind: 'long', texts: long },
  ])('that are $kind make no page scroll sideways', async ({ texts }) => {
    const { url, server } = await fixtureServer(texts, 3)
    await using tab = await openTab(url)
    const { page } = tab
    const wide: string[] = []
    for (const path of PATHS) {
      await page.goto(path)
      await page.locator('.fresh').getByText('updated').waitFor({ state: 'attached' })
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 })
        const over = Number(await page.evaluate(`${OVER}(document.documentElement)`))
        if (over > 0) wide.push(`${path} at ${width}: ${over}`)
      }
    }
    expect(wide).toEqual([])
    server.close()
  })

  test('make no dialog scroll sideways', async () => {
    const { url, server } = await fixtureServer(long, 1)
    await using tab = await openTab(url, { width: 360, height: 740 })
    const { page } = tab
    for (const [path, name] of [
      ['failed', /^Retry all like/],
      ['failed/12', 'Discard …'],
      ['keys', /^Release/],
    ] as const) {
      await page.goto(path)
      await page.getByRole('button', { name }).first().click()
      await page.getByRole('dialog').locator('.command').waitFor()
      expect(await page.evaluate(`${OVER}(document.querySelector('dialog[open]'))`), path).toBe(0)
    }
    server.close()
  })

  test('show characters that nobody sees, wherever they are, and are edited and copied as they are', async () => {
    const marks = '\u202e\u2066\u200f\u061c\u200b\u0007\u2028'
    const { url, server } = await fixtureServer((_, sensible) => `${sensible}${marks}gnp.exe`, 2)
    await using tab = await openTab(url)
    const { page } = tab
    const unseen = async (): Promise<unknown> =>
      page.evaluate(`[document.body.textContent, document.title,
        ...[...document.querySelectorAll('[title], [aria-label]')]
          .flatMap((each) => [each.getAttribute('title') ?? '', each.getAttribute('aria-label') ?? ''])]
        .flatMap((text) => text.match(/.{0,20}[\\p{Cf}\\p{Zl}\\u0007].{0,20}/gu) ?? [])`)
    for (const path of PATHS) {
      await page.goto(path)
      await page.locator('.fresh').getByText('updated').waitFor()
      await page.locator('main').getByText('\\u202e').first().waitFor()
      expect(await unseen(), path).toEqual([])
    }
    await page.goto('keys')
    await page.getByRole('button', { name: 'Release customer-0' }).click()
    expect(await unseen()).toEqual([])
    const command = (await page.getByRole('dialog').locator('.command pre').textContent()) ?? ''
    expect(command).toContain("$'customer-0\\xe2\\x80\\xae")
    await page.goto('failed/12')
    await page.getByRole('button', { name: 'Edit …' }).click()
    // The text that is edited is the text itself.
    expect(await page.getByLabel('The new payload').inputValue()).toContain(marks)
    server.close()
  })

  test('that are hostile do not keep a page busy', async () => {
    const payload = `"${'\\"'.repeat(500_000)}`
    const { url, server } = await fixtureServer((field, sensible) => (field === 'payload' ? payload : sensible), 1)
    await using tab = await openTab(url)
    const { page } = tab
    await page.goto('failed/12')
    await page.locator('pre.data').waitFor()
    await page.getByRole('button', { name: 'Edit …' }).click()
    await page.getByLabel('The new payload').fill('{}')
    await page.getByText('It is too large to be compared here.').waitFor()
    server.close()
    expect(tab.complaints).toEqual([])
  })
})
