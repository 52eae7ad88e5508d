import { afterAll, describe, expect, test } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { closeBrowser, openTab, withoutBrowser } from '../support/console/browser.ts'
import { OrderPlaced, openWorld, type World } from '../support/console/world.ts'
import { durableStores } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'

afterAll(closeBrowser)

const FAILED = 40

async function publish({ hapax }: World, from: number, howMany: number): Promise<void> {
  await hapax.transaction(async (tx) => {
    for (let n = from; n < from + howMany; n += 1) {
      await hapax.publish(tx, OrderPlaced, { n, fate: 'declined' }, { key: `customer-${n}` })
    }
  })
}

describe.skipIf(withoutBrowser).for(oneInTest(durableStores(), 'postgres'))('an incident on %s', (store) => {
  test('goes from the alert to an empty failed store, and the audit says who did what', async () => {
    await using world = await openWorld(store)
    const { hapax } = world
    await publish(world, 0, FAILED)
    // Two consumers take each order.
    await until(async () => (await hapax.failed.count()) === 2 * FAILED)
    await using tab = await openTab(world.url, { actor: 'ada', role: 'operator' })
    await using other = await openTab(world.url, { actor: 'grace', role: 'viewer' })
    const { page } = tab

    // What failed alike, since when, and what waits behind it.
    await page.goto('')
    await page
      .getByRole('link', { name: /failed/i })
      .filter({ hasText: String(2 * FAILED) })
      .click()
    await page.getByText('the card was declined').first().waitFor()
    await page.getByRole('link', { name: 'Held keys' }).first().click()
    await page.getByRole('button', { name: 'Release customer-0' }).waitFor()

    // One of them, to understand it.
    await page.goto('failed')
    await page.getByRole('link', { name: /^Messages like order.placed of emails/ }).click()
    await page.getByRole('cell').getByRole('link').first().click()
    await page.getByText('Permanent').first().waitFor()

    // The provider is back. Exactly what failed until now is retried, while others go on failing.
    await page.goto('failed')
    await page.getByRole('button', { name: 'Retry all like order.placed of emails' }).click()
    await page.getByText(`Exactly ${FAILED} messages`).waitFor()
    await page.getByLabel('At most so many per second').fill('20')
    await page.getByLabel('Note for the audit').fill('the provider is back')
    world.down = false
    await page.getByRole('button', { name: `Retry ${FAILED} messages` }).click()
    await page.getByRole('heading', { level: 1, name: `Retry ${FAILED} messages` }).waitFor()

    // Another person sees the same progress, and may change nothing.
    await other.page.goto(new URL(page.url()).pathname.slice(1))
    await other.page.getByRole('progressbar').waitFor()
    expect(await other.page.getByRole('button', { name: 'Cancel …' }).count()).toBe(0)
    for (const each of [page, other.page]) await each.getByText('100 %').waitFor()
    await until(async () => (await hapax.failed.count({ consumer: 'emails' })) === 0)
    await until(() => new Set(world.handled).size >= FAILED, 'all of them are handled')
    expect(new Set(world.handled)).toEqual(new Set(Array.from({ length: FAILED }, (_, n) => n)))

    // The rest.
    await page.goto('failed')
    await page.getByRole('button', { name: 'Retry all …' }).click()
    await page.getByLabel('At most so many per second').fill('')
    await page.getByRole('button', { name: `Retry ${FAILED} messages` }).click()
    await page.getByText('100 %').waitFor()
    await until(async () => (await hapax.failed.count()) === 0)
    await until(() => world.handled.length >= 2 * FAILED, 'the rest is handled')
    await page.goto('failed')
    await page.getByRole('heading', { name: 'Nothing has failed' }).waitFor()
    expect(world.handled).toHaveLength(2 * FAILED)

    // Who did what.
    await page.goto('audit?action=begin')
    await page.getByRole('cell', { name: 'the provider is back' }).waitFor()
    // Exactly this name: it may be a part of an operation's id as well.
    expect(await page.getByRole('cell', { name: 'ada', exact: true }).count()).toBe(2)
    expect([...tab.complaints, ...other.complaints]).toEqual([])
  })
})
