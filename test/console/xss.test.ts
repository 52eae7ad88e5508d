import { Permanent } from 'hapax'
import { afterAll, describe, expect, test } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { closeBrowser, openTab, withoutBrowser } from '../support/console/browser.ts'
import { fixtureServer } from '../support/console/fixture-server.ts'
import { OrderPlaced, openWorld } from '../support/console/world.ts'
import { XSS } from '../support/console/xss.ts'
import { durableStores } from '../support/databases.ts'
import { inThisRun } from '../support/runs.ts'

afterAll(closeBrowser)

const PATHS = [
  ...['', 'consumers', 'relays', 'messages', 'message?id=x', 'failed', 'failed/list', 'failed/12', 'keys', 'effects'],
  ...['workers', 'retries', 'operations', 'operations/01924f6e-7b6a-7cc1-9d33-0a1b2c3d4e00', 'audit', 'health'],
]
const PARTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
const AT_ONCE = XSS.length / PARTS.length

describe.skipIf(withoutBrowser)('what others have written', () => {
  test('there are five hundred different texts', () => {
    expect(new Set(XSS).size).toBe(500)
  })

  test.for(inThisRun(PARTS, (part) => part === 0))(
    'is shown and never run, in every field of every page (%i)',
    async (part) => {
      const texts = XSS.slice(part * AT_ONCE, (part + 1) * AT_ONCE).join(' ')
      const fields = new Set<string>()
      const { url, reports, server } = await fixtureServer((field) => {
        fields.add(field)
        return texts
      }, 2)
      await using tab = await openTab(url)
      for (const path of PATHS) {
        await tab.page.goto(path)
        await tab.page.locator('.fresh').getByText('updated').waitFor()
        expect(await tab.page.locator('main script, main iframe, main img, main [onerror]').count()).toBe(0)
      }
      server.close()
      expect(fields.size).toBeGreaterThan(30)
      expect(reports).toEqual([])
      expect(tab.complaints).toEqual([])
    },
  )

  test('is shown and never run, from a database, and in dialogs', async () => {
    await using world = await openWorld(durableStores()[0] ?? 'sqlite', { working: false })
    const { hapax } = world
    const texts = XSS.filter((text) => !text.includes('\u0001') && !text.includes('\t')).slice(0, 120)
    const consumer = hapax.consumer('<img src=x onerror=alert(1)>').on(OrderPlaced, (order) => {
      throw new Permanent(String(order))
    })
    for (const [index, text] of texts.entries()) {
      await consumer.handle({ id: `${text}${index}`, source: text, type: OrderPlaced.type, key: text, data: text })
    }
    await until(async () => (await hapax.failed.count()) > 0)
    const [found] = await hapax.failed.list()
    await hapax.failed.note(found?.seq ?? '', { actor: texts[3] ?? '', note: texts[4] ?? '' })
    await using tab = await openTab(world.url, { actor: encodeURIComponent(texts[5] ?? '') })
    const id = encodeURIComponent(found?.message.id ?? '')
    for (const path of [
      '',
      'failed',
      'failed/list',
      `failed/${found?.seq}`,
      `message?id=${id}`,
      'audit',
      'consumers',
    ]) {
      await tab.page.goto(path)
      await tab.page.locator('.fresh').getByText('updated').waitFor()
    }
    await tab.page.goto(`failed/${found?.seq}`)
    for (const name of ['Note …', 'Discard …']) {
      await tab.page.getByRole('button', { name }).click()
      await tab.page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    }
    expect(tab.complaints).toEqual([])
  })
})
