import { HapaxError } from 'hapax'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { closeBrowser, openTab, type Tab, withoutBrowser } from '../support/console/browser.ts'
import { objection } from '../support/console/commands.ts'
import { ChargeDue, fill, InvoiceSent, openWorld, type World } from '../support/console/world.ts'
import { durableStores } from '../support/databases.ts'

afterAll(closeBrowser)

const commands: string[] = []

/** Confirms what a dialog asks. Returns the command that it showed. */
async function confirmed(page: Page, button: string | RegExp, note = ''): Promise<string> {
  const dialog = page.getByRole('dialog')
  if (note !== '') await dialog.getByLabel('Note for the audit').fill(note)
  const command = (await dialog.locator('.command pre').textContent()) ?? ''
  commands.push(command)
  await dialog.getByRole('button', { name: button }).click()
  await dialog.waitFor({ state: 'detached' })
  return command
}

describe.skipIf(withoutBrowser).for(durableStores())('the actions of the console on %s', (store) => {
  let world: World
  let tab: Tab
  let page: Page

  beforeAll(async () => {
    world = await openWorld(store)
    await fill(world)
    tab = await openTab(world.url)
    page = tab.page
  })

  afterAll(async () => {
    await tab?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  const failedOf = async (consumer: string) => world.hapax.failed.list({ consumer })
  const audited = async (action: string) =>
    (await world.hapax.audit.list({ actor: 'ada', limit: 50 })).rows.filter((each) => each.action === action)

  test('a note is kept with the message, and nothing else is changed', async () => {
    const [found] = await failedOf('emails')
    await page.goto(`failed/${found?.seq}`)
    await page.getByRole('button', { name: 'Note …' }).click()
    const confirm = page.getByRole('dialog').getByRole('button', { name: 'Add note' })
    expect(await confirm.isDisabled()).toBe(true)
    const command = await confirmed(page, 'Add note', `it's "Ada's" card`)
    expect(command).toBe(`npx hapax failed note ${found?.seq} --note 'it'\\''s "Ada'\\''s" card'`)
    expect((await audited('note')).map(({ note }) => note)).toEqual([`it's "Ada's" card`])
    expect(await world.hapax.failed.get(found?.seq ?? '')).toBeDefined()
  })

  test('a message that is retried fails again while the cause is there', async () => {
    const [found] = await failedOf('emails')
    await page.goto('failed/list?scope=emails')
    await page.getByRole('button', { name: `Retry ${found?.seq}` }).click()
    const command = await confirmed(page, 'Retry', 'once more')
    expect(command).toBe(`npx hapax failed retry ${found?.seq} --note 'once more'`)
    expect((await audited('retry')).map(({ note }) => note)).toEqual(['once more'])
    await until(async () => (await world.hapax.failed.count()) === 13)
  })

  test('an edit shows what changes, and keeps the text byte for byte', async () => {
    const [found] = (await failedOf('emails')).filter(({ error }) => error.message.includes('declined'))
    await page.goto(`failed/${found?.seq}`)
    await page.getByRole('button', { name: 'Edit …' }).click()
    const field = page.getByLabel('The new payload')
    await field.fill('{"n": }')
    expect(await page.getByRole('button', { name: 'Replace the message' }).isDisabled()).toBe(true)
    await page.getByText('No JSON').waitFor()
    const text = '{\n  "n": 7777,\n  "big": 12345678901234567890,\n  "quote": "it\'s"\n}'
    await field.fill(text)
    await page.locator('.diff .added').filter({ hasText: '12345678901234567890' }).waitFor()
    await page.locator('.diff .removed').filter({ hasText: 'declined' }).waitFor()
    const command = await confirmed(page, 'Replace the message')
    expect(command).toContain(`npx hapax failed edit ${found?.seq} --data '{`)
    expect(command).toContain(`it'\\''s`)
    await page.getByRole('heading', { name: 'Message' }).waitFor()
    await until(() => world.handled.includes(7777))
    const replaced = await world.hapax.failed.get(found?.seq ?? '')
    expect(replaced?.replacedBy).toBe(new URL(page.url()).searchParams.get('id'))
  })

  test('a message that is discarded is gone, and the audit says by whom', async () => {
    const [found] = (await failedOf('emails')).filter(({ replacedBy }) => replacedBy === null)
    await page.goto(`failed/${found?.seq}`)
    await page.getByRole('button', { name: 'Discard …' }).click()
    await page.getByText('deleted for good').waitFor()
    expect(await confirmed(page, 'Discard for good')).toBe(`npx hapax failed discard ${found?.seq}`)
    await page.getByRole('heading', { name: 'Failed', exact: true }).waitFor()
    expect(await world.hapax.failed.get(found?.seq ?? '')).toBeUndefined()
    await page.goto('audit?action=discard')
    await page.getByRole('cell', { name: 'ada' }).first().waitFor()
  })

  test('a key that is released goes on without its message', async () => {
    await page.goto('keys')
    await page.getByRole('button', { name: 'Release customer-0' }).click()
    await page.getByText('although the one before them was not').waitFor()
    const command = await confirmed(page, 'Release')
    expect(command).toBe('npx hapax keys release customer-0 --consumer billing --yes')
    await until(() => world.handled.includes(901))
  })

  test('an unknown effect is settled by what a person has found out', async () => {
    await page.goto('effects')
    await page.getByRole('link', { name: 'Settle there' }).click()
    await page.getByRole('button', { name: 'Settle charge' }).click()
    expect(await page.getByRole('button', { name: 'Settle and retry' }).isDisabled()).toBe(true)
    await page.getByLabel('It happened').check()
    await page.getByLabel('What it returned').fill('{"charged":902}')
    const command = await confirmed(page, 'Settle and retry')
    expect(command).toMatch(/^npx hapax failed settle \S+ charge --done --result '\{"charged":902\}'$/)
    await until(async () => (await failedOf('charges')).length === 0)
    expect(world.handled).not.toContain(902)
  })

  test('an external call of unknown outcome shows its idempotency key, and is repeated with it', async () => {
    const { hapax, keys } = world
    await hapax.transaction((tx) => hapax.publish(tx, ChargeDue, { n: 905, fate: 'unknown' }))
    await until(async () => (await failedOf('charges')).length === 1)
    const [key] = keys.slice(-1)
    await page.goto('effects')
    const listed = page.getByRole('cell').filter({ hasText: 'Idempotency key' })
    await listed.getByText(`${key}`).waitFor()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await listed.getByRole('button', { name: 'Copy the idempotency key' }).click()
    await listed.getByText('Copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key)
    await page.getByRole('link', { name: 'Settle there' }).click()
    await page.getByRole('button', { name: 'Settle charge' }).click()
    await page.getByRole('dialog').getByText(`${key}`).waitFor()
    await page.getByLabel('the call is repeated with the same idempotency key').check()
    world.down = false
    const command = await confirmed(page, 'Repeat the call')
    expect(command).toMatch(/^npx hapax failed settle \S+ charge --retry$/)
    await until(() => world.handled.includes(905))
    world.down = true
    expect(await failedOf('charges')).toEqual([])
    expect(keys.slice(-2)).toEqual([key, key])
    expect((await audited('settle')).map(({ note }) => note)).toContain("'charge' as retry")
  })

  test('a message that waits for its next attempt is retried now, alone or with all that match', async () => {
    const banking = world.hapax.consumer('banking', { retry: { minDelayMs: 600_000 } })
    banking.on(InvoiceSent, () => Promise.reject(new Error('the bank is closed')))
    for (const id of ['banking-1', 'banking-2']) {
      await banking.handle({ id, source: '/shop', type: InvoiceSent.type, data: { n: 1 } })
    }
    const waiting = async () => (await world.hapax.messages.list({ origin: 'inbox', scope: 'banking' })).rows
    const due = async () => (await waiting()).filter(({ dueAt }) => dueAt.getTime() < Date.now() + 60_000).length
    const [row] = await waiting()
    await page.goto('messages?place=inbox&scope=banking&state=retrying')
    await page.getByRole('button', { name: `Retry now ${row?.seq}` }).click()
    expect(await confirmed(page, 'Retry now')).toBe(`npx hapax messages retry ${row?.seq}`)
    await until(async () => (await due()) === 1)
    await page.getByRole('button', { name: 'Retry all that match now …' }).click()
    expect(await confirmed(page, 'Retry now')).toBe('npx hapax messages retry --consumer banking --yes')
    await until(async () => (await due()) === 2)
    await page.goto('retries')
    await page.getByRole('heading', { name: 'Retries' }).waitFor()
  })

  test('a message that was sent is sent again', async () => {
    const [sent] = await world.hapax.sent.list()
    await page.goto('messages?place=sent')
    await page.getByRole('button', { name: `Send ${sent?.seq} again` }).click()
    expect(await confirmed(page, 'Send again')).toBe(`npx hapax sent republish ${sent?.seq}`)
    await until(async () => (await world.hapax.sent.list()).some(({ seq }) => seq !== sent?.seq))
  })

  test('messages whose effects may be partly committed are retried once a person has checked them, alone or in bulk', async () => {
    const ledger = world.hapax.consumer('ledger')
    ledger.on(InvoiceSent, () => Promise.reject(new HapaxError('broken-atomicity', 'it has committed by itself')))
    for (const id of ['broken-1', 'broken-2']) {
      await ledger.handle({ id, source: '/shop', type: InvoiceSent.type, data: { n: 1 } })
    }
    const [found] = await failedOf('ledger')
    await page.goto(`failed/${found?.seq}`)
    await page.getByRole('button', { name: 'Retry …' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByRole('button', { name: 'Retry' }).isDisabled()).toBe(true)
    await dialog.getByLabel('I have checked its effects.').check()
    expect(await confirmed(page, 'Retry')).toBe(`npx hapax failed retry ${found?.seq} --effects-checked`)
    await until(async () => (await failedOf('ledger')).length === 1)
    await page.goto('failed?scope=ledger')
    await page.getByRole('button', { name: 'Retry all that match …' }).first().click()
    await dialog.getByText('skipped, and counted as not done').waitFor()
    await dialog.getByLabel('I have checked the effects of each of them.').check()
    expect(await confirmed(page, 'Retry 1 message')).toContain('--effects-checked')
    await until(async () => (await failedOf('ledger')).length === 0)
  })

  test('a consumer is paused and resumed, and everybody sees by whom', async () => {
    await page.goto('consumers')
    const row = page.getByRole('row').filter({ hasText: 'emails' })
    await row.getByRole('button', { name: 'Pause …' }).click()
    expect(await confirmed(page, 'Pause', 'the provider is down')).toBe(
      "npx hapax consumers pause emails --note 'the provider is down'",
    )
    await row.getByText('by ada').waitFor()
    await row.getByText('the provider is down').waitFor()
    expect((await world.hapax.status()).paused).toHaveLength(1)
    await row.getByRole('button', { name: 'Resume …' }).click()
    expect(await confirmed(page, 'Resume')).toBe('npx hapax consumers resume emails')
    await row.getByRole('button', { name: 'Pause …' }).waitFor()
    expect((await world.hapax.status()).paused).toEqual([])
  })

  test('a relay is paused, and a message says why it waits', async () => {
    const { hapax } = world
    const obeyed = new Promise<void>((resolve) => {
      hapax.events.on('paused', ({ scope }) => void (scope === 'default' && resolve()))
    })
    await page.goto('relays')
    const row = page.getByRole('row').filter({ hasText: 'default' })
    await row.getByRole('button', { name: 'Pause …' }).click()
    expect(await confirmed(page, 'Pause')).toBe('npx hapax relays pause default')
    await row.getByText('by ada').waitFor()
    await obeyed
    await hapax.transaction((tx) => hapax.publish(tx, InvoiceSent, { n: 904 }))
    await page.goto('messages?place=outbox')
    await page.getByRole('cell').getByRole('link').first().click()
    await page.getByRole('heading', { name: 'Why is it waiting?' }).waitFor()
    await page.locator('.why').getByText('paused').waitFor()
    await page.goto('relays')
    await row.getByRole('button', { name: 'Resume …' }).click()
    await confirmed(page, 'Resume')
    await until(async () => (await hapax.messages.list({ origin: 'outbox' })).rows.length === 0)
  })

  test('an operation is paused, resumed and cancelled', async () => {
    await page.goto('failed?origin=inbox&scope=billing&reason=permanent&until=2126-01-01T00:00:00.000Z')
    await page.getByRole('button', { name: 'Retry all that match …' }).click()
    await page.getByText(/Exactly \d+ messages/).waitFor()
    await page.getByLabel('At most so many per second').fill('0.02')
    const command = await confirmed(page, /^Retry \d+ messages$/, 'slowly')
    expect(command).toBe(
      'npx hapax failed retry --consumer billing --reason permanent --until 2126-01-01T00:00:00.000Z --rate 0.02 --note slowly --yes',
    )
    await page.getByText('0.02 per second').waitFor()
    await page.getByRole('button', { name: 'Pause …' }).click()
    expect(await confirmed(page, 'Pause')).toMatch(/^npx hapax operations pause [\da-f-]{36}$/)
    await page.getByRole('button', { name: 'Resume …' }).click()
    await confirmed(page, 'Resume')
    await page.getByRole('button', { name: 'Cancel …' }).click()
    await confirmed(page, 'Cancel the operation')
    await page.getByRole('definition').getByText('cancelled').waitFor()
    const [operation] = await world.hapax.operations.list({ limit: 1 })
    expect(operation).toMatchObject({ state: 'cancelled', actor: 'ada', note: 'slowly' })
  })

  test('discarding in bulk deletes exactly what was counted', async () => {
    world.down = true
    const before = (await failedOf('emails')).filter(({ replacedBy }) => replacedBy === null).length
    await page.goto('failed?scope=emails')
    await page.getByRole('button', { name: 'Discard all that match …' }).click()
    await page.getByText(`Exactly ${before} messages`).waitFor()
    await confirmed(page, /^Discard \d+ messages$/)
    await page.getByText('100 %').waitFor()
    await until(async () => (await failedOf('emails')).length === 0)
    await page.goto('operations')
    await page
      .getByText(/by ada, took \d+ m?s/)
      .first()
      .waitFor()
  })

  test('every command that was shown exists, as a shell reads it', async () => {
    expect(commands.length).toBeGreaterThan(10)
    for (const command of commands.splice(0)) expect(await objection(command), command).toBeUndefined()
  })

  test('no page complained', () => {
    expect(tab.complaints).toEqual([])
  })
})
