import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { violations } from '../support/console/axe.ts'
import { closeBrowser, openTab, type Tab, withoutBrowser } from '../support/console/browser.ts'
import { objection } from '../support/console/commands.ts'
import { PAGES } from '../support/console/pages.ts'
import { fill, openWorld, type World } from '../support/console/world.ts'
import { durableStores } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'

afterAll(closeBrowser)

describe.skipIf(withoutBrowser)('the pages of the console', () => {
  describe.for(oneInTest(durableStores(), 'sqlite'))('on %s', (store) => {
    let world: World
    let tab: Tab

    beforeAll(async () => {
      world = await openWorld(store)
      await fill(world)
      tab = await openTab(world.url)
    })

    afterAll(async () => {
      await tab?.[Symbol.asyncDispose]()
      await world?.[Symbol.asyncDispose]()
    })

    test.for(PAGES)('$title shows what there is, light and dark, for everybody, at any width', async (each) => {
      const { page, complaints } = tab
      await page.setViewportSize({ width: 1280, height: 800 })
      await page.emulateMedia({ colorScheme: 'light' })
      await page.goto(await each.path(world))
      await page.getByRole('heading', { level: 1, name: each.title }).waitFor()
      for (const text of each.shows) {
        await page.locator('main').getByText(text).filter({ visible: true }).first().waitFor()
      }
      expect(await violations(page), 'light').toEqual([])
      await page.emulateMedia({ colorScheme: 'dark' })
      expect(await violations(page), 'dark').toEqual([])
      await page.setViewportSize({ width: 360, height: 740 })
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
      expect(await violations(page), 'narrow').toEqual([])
      expect(complaints).toEqual([])
    })

    test('a narrow window has a menu', async () => {
      const { page } = tab
      await page.goto('')
      await page.getByRole('button', { name: 'Pages' }).click()
      await page.getByRole('link', { name: 'Audit log' }).click()
      await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor()
      expect(new URL(page.url()).pathname).toBe('/audit')
    })

    test('an address of no page says so', async () => {
      await tab.page.goto('consumers/nothing')
      await tab.page.getByRole('heading', { level: 1, name: 'There is no such page' }).waitFor()
    })
  })

  test('what is empty says what would be there, and what to do', async () => {
    await using world = await openWorld(durableStores().at(0) ?? 'sqlite', { working: false })
    await using tab = await openTab(world.url)
    for (const path of ['', ...EMPTY]) {
      await tab.page.goto(path)
      await tab.page.locator('.empty .command').first().waitFor()
      expect(await violations(tab.page), path).toEqual([])
      const command = (await tab.page.locator('.empty .command pre').first().textContent()) ?? ''
      expect(await objection(command), command).toBeUndefined()
    }
    expect(tab.complaints).toEqual([])
  })
})

const EMPTY = [
  'consumers',
  'relays',
  'failed',
  'messages',
  'keys',
  'effects',
  'operations',
  'retries',
  'workers',
  'audit',
]
