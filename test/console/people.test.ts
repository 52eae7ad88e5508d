import { Permanent } from 'hapax'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { violations } from '../support/console/axe.ts'
import { closeBrowser, openTab, type Tab, withoutBrowser } from '../support/console/browser.ts'
import { fixtureServer } from '../support/console/fixture-server.ts'
import { fill, InvoiceSent, OrderPlaced, openWorld, type World } from '../support/console/world.ts'
import { durableStores } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import { requireServer } from '../support/servers.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

afterAll(closeBrowser)

describe.skipIf(withoutBrowser)('people at the console', () => {
  let world: World

  beforeAll(async () => {
    world = await openWorld(durableStores()[0] ?? 'sqlite')
    await fill(world)
  })

  afterAll(async () => {
    await world?.[Symbol.asyncDispose]()
  })

  test('of two operators of one message, one wins and the other is told', async () => {
    const [found] = await world.hapax.failed.list({ consumer: 'emails' })
    await using ada = await openTab(world.url, { actor: 'ada', role: 'operator' })
    await using grace = await openTab(world.url, { actor: 'grace', role: 'operator' })
    for (const { page } of [ada, grace]) {
      await page.goto(`failed/${found?.seq}`)
      await page.getByRole('button', { name: 'Discard …' }).click()
    }
    await ada.page.getByRole('button', { name: 'Discard for good' }).click()
    await ada.page.getByText(`Message ${found?.seq} was discarded.`).waitFor()
    await grace.page.getByRole('button', { name: 'Discard for good' }).click()
    await grace.page.getByRole('dialog').getByText('not-found').waitFor()
    const { rows } = await world.hapax.audit.list({ action: 'discard', limit: 10 })
    expect(rows.map(({ actor }) => actor)).toEqual(['ada'])
  })

  test('a viewer sees no button that changes anything, and no payload', async () => {
    const [found] = await world.hapax.failed.list({ consumer: 'emails' })
    await using tab = await openTab(world.url, { role: 'viewer' })
    for (const path of ['failed', `failed/${found?.seq}`, 'keys', 'consumers', 'relays', 'messages?place=sent']) {
      await tab.page.goto(path)
      await tab.page.getByText('updated').first().waitFor()
      await tab.page.locator('main').getByRole('heading', { level: 1 }).waitFor()
      expect(
        await tab.page
          .locator('main')
          .getByRole('button', { name: / …$|^(Retry|Release|Send)/ })
          .count(),
        path,
      ).toBe(0)
    }
    await tab.page.goto(`failed/${found?.seq}`)
    await tab.page.getByText('Your role does not see payloads').waitFor()
    // The link of an HTTP request, whose key this person does not see.
    await tab.page.goto('message?id=sha256:0123456789abcdef')
    await tab.page.getByText('Your role does not see the life of this request').waitFor()
  })

  test('read-only hides what changes anything, and the server refuses it', async () => {
    await using readOnly = await openWorld(durableStores()[0] ?? 'sqlite', { console: { readOnly: true } })
    await fill(readOnly, 1)
    await using tab = await openTab(readOnly.url, { role: 'admin' })
    await tab.page.goto('failed')
    await tab.page.getByText('read only').waitFor()
    await tab.page.getByText('the order has no customer').first().waitFor()
    expect(await tab.page.locator('main').getByRole('button', { name: / …$/ }).count()).toBe(0)
    const [found] = await readOnly.hapax.failed.list()
    const status = await tab.page.evaluate(
      `fetch('/api/failed/${found?.seq}/retry', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
        .then((reply) => reply.status)`,
    )
    expect(status).toBe(403)
  })

  test('a large payload is shown in part, then whole, and edited whole', async () => {
    const { hapax } = world
    const customer = `${'x'.repeat(100_000)}end`
    await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { n: 5_000, customer, fate: 'rejected' }))
    const large = async () =>
      (await hapax.failed.list({ consumer: 'emails' })).find(({ message }) => message.data.length > 1e5)
    await until(async () => (await large()) !== undefined)
    const seq = (await large())?.seq
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.goto(`failed/${seq}`)
    const text = page.locator('.data')
    await text.waitFor()
    expect(await text.textContent()).not.toContain('end')
    await page.getByRole('button', { name: 'Load all' }).click()
    await text.getByText('xend').waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Edit …' }).click()
    expect(await page.getByLabel('The new payload').inputValue()).toContain('xend')
    expect(tab.complaints).toEqual([])
  })

  test('the overview begins with what is wrong, worst first, and what to do about it', async () => {
    const { hapax } = world
    const search = hapax.consumer('search', { receive: 'store' }).on(InvoiceSent, () => {})
    for (const id of ['s-1', 's-2']) {
      await search.handle({ id, source: '/shop', type: InvoiceSent.type, data: { n: 1 } })
    }
    await using tab = await openTab(world.url, { role: 'viewer' })
    const { page } = tab
    await page.goto('')
    const findings = page.locator('.findings li')
    await findings.first().waitFor()
    const texts = await findings.allTextContents()
    const alone = texts.findIndex((text) => text.includes('2 messages of the consumer search wait, and no live worker'))
    expect(texts[alone]).toContain('Start a worker that consumes it')
    // The errors of the test's server may be others as well; all warnings come after them.
    const levels = texts.map((text) => text.slice(0, text.indexOf(' ')))
    expect([levels[alone], levels]).toEqual(['error', [...levels].sort()])
    const isAbove = `document.querySelector('.findings').compareDocumentPosition(document.querySelector('.figures')) & 4`
    expect(await page.evaluate(isAbove)).toBe(4)
    await page.locator('.figure.bad').getByText('workers, none for 2 messages').waitFor()
    await page.getByRole('row').filter({ hasText: 'search' }).getByText('none').waitFor()
    expect(await violations(page)).toEqual([])
    await findings.nth(alone).getByRole('link', { name: 'Workers' }).click()
    await page.getByRole('heading', { level: 1, name: 'Workers' }).waitFor()
    // A worker of it mends that.
    const worker = hapax.worker({ consume: [search] })
    await worker.start()
    await worker.drain()
    await page.goto('')
    await page.getByRole('heading', { name: 'Consumers' }).waitFor()
    await page.waitForResponse(/api\/health$/)
    await findings.getByText('no live worker serves it').waitFor({ state: 'detached' })
    await worker.stop()
    expect(tab.complaints).toEqual([])
  })

  test('a payload of JSON is indented and folded, and copied as it is stored', async () => {
    const payload = '{"orderId":12345678901234567890,"items":[{"sku":"A-1","n":1.10}],"gift":{}}'
    const { url, server } = await fixtureServer((field, sensible) => (field === 'payload' ? payload : sensible), 1)
    await using tab = await openTab(url)
    const { page } = tab
    await page.goto('failed/12')
    const data = page.locator('.data')
    await data.waitFor()
    // biome-ignore lint/performance/useDomNodeTextContent: what is folded must not be seen
    const lines = async () => (await data.innerText()).split('\n').map((each) => each.trimEnd())
    const indented = JSON.stringify(JSON.parse(payload), null, 2)
      .replace('12345678901234567000', '12345678901234567890')
      .replace('1.1', '1.10')
    expect(await lines()).toEqual(indented.split('\n'))
    expect(await violations(page)).toEqual([])
    // By hand, and it stays so when the page asks again.
    await data.getByText('"items"').click()
    await page.waitForResponse(/api\/failed\/12$/)
    expect((await lines()).join().includes('A-1')).toBe(false)
    await page.getByRole('button', { name: 'Fold all' }).click()
    await page.getByRole('button', { name: 'Fold all' }).click()
    expect(await lines()).toEqual(indented.split('\n'))
    await page.getByRole('button', { name: 'As stored' }).click()
    expect(await data.textContent()).toBe(payload)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy the payload' }).click()
    await page.getByText('Copied the payload').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(payload)
    server.close()
    expect(tab.complaints).toEqual([])
  })

  test('everything is reached by the keyboard', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    const { keyboard } = page
    await page.goto('')
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content')
    // Both are on their way at once: there may be a second and a half between them.
    await Promise.all([keyboard.press('g'), keyboard.press('k')])
    await page.getByRole('heading', { level: 1, name: 'Held keys' }).waitFor()
    await keyboard.press('?')
    await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor()
    await keyboard.press('Escape')
    await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor({ state: 'hidden' })
    const release = page.getByRole('button', { name: 'Release customer-1' })
    await release.focus()
    await keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // Back where it began.
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('Release customer-1')
    const { message } = (await world.hapax.failed.list({ consumer: 'billing' }))[0] ?? {}
    await keyboard.press('/')
    await keyboard.type(message?.id ?? '')
    await keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Message' }).waitFor()
    await page.getByText('It failed for good.').first().waitFor()
  })

  test('a key that is pressed right after Escape finds the dialog closed, and keeps the focus that it moves', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    const { keyboard } = page
    await page.goto('keys')
    for (let round = 0; round < 5; round += 1) {
      await page.getByRole('button', { name: 'Release customer-1' }).focus()
      await keyboard.press('Enter')
      await page.getByRole('dialog').waitFor()
      await Promise.all([keyboard.press('Escape'), keyboard.press('/')])
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      // What was put off until the next frames has happened by then.
      await page.evaluate(TWO_FRAMES)
      expect(await page.evaluate('document.activeElement.id')).toBe('search')
    }
  })

  test('a paused page asks for nothing until it is resumed, and keeps what it shows', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    let asked = 0
    page.on('request', (request) => {
      if (request.url().includes('/api/overview')) asked += 1
    })
    await page.goto('')
    await until(() => asked >= 2)
    await page.keyboard.press('p')
    await page.getByText('paused, updated').waitFor()
    const before = asked
    await page.getByText(/paused, updated ([5-9]|\d\d) s ago/).waitFor()
    expect(asked - before).toBeLessThanOrEqual(1)
    await page.keyboard.press('p')
    await until(() => asked > before + 1)
    expect(tab.complaints).toEqual([])
  })

  test('a page whose person is no longer let in says so, and that it has stopped asking', async () => {
    await using tab = await openTab(world.url)
    const { page, context } = tab
    await page.goto('')
    await page.getByText('What failed').waitFor()
    await context.setExtraHTTPHeaders({})
    await page.getByText('You are signed out.').waitFor()
    await page.getByText('This page has stopped asking').waitFor()
    expect(await page.getByText('This page keeps trying').count()).toBe(0)
    await page.getByText('What failed').waitFor()
    await context.setExtraHTTPHeaders({ 'x-actor': 'ada', 'x-role': 'admin' })
    await page.getByRole('link', { name: 'Sign in again' }).click()
    await page.getByText('You are signed out.').waitFor({ state: 'detached' })
    await page.getByText('What failed').waitFor()
    // What is missing is missing, and nobody is signed out by it.
    await page.goto('failed/1-1')
    await page.locator('main .notice').getByText('not-found').waitFor()
    expect(await page.getByText('You are signed out.').count()).toBe(0)
  })

  test('a change whose dialog the browser has closed says how it ended', async () => {
    const [found] = await world.hapax.failed.list({ consumer: 'billing' })
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.goto(`failed/${found?.seq}`)
    for (const fails of [true, false]) {
      const held = Promise.withResolvers<void>()
      await page.route('**/note', async (route) => {
        await held.promise
        await (fails ? route.abort() : route.continue())
      })
      await page.getByRole('button', { name: 'Note …' }).click()
      await page.getByLabel('Note for the audit').fill('seen')
      await page.getByRole('button', { name: 'Add note' }).click()
      await page.getByText('Working …').waitFor()
      await until(async () => {
        await page.keyboard.press('Escape')
        return (await page.getByRole('dialog').count()) === 0
      })
      held.resolve()
      const said = fails
        ? `Add a note to message ${found?.seq}: The console’s server cannot be reached.`
        : `The note was added to message ${found?.seq}.`
      await page.locator('.toast').getByText(said).waitFor()
      await page.unroute('**/note')
    }
    expect(tab.complaints).toEqual([])
  })

  test('the back button closes a dialog about the page before', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.goto('failed')
    await page.getByRole('navigation').getByRole('link', { name: 'Held keys' }).click()
    await page.getByRole('button', { name: 'Release customer-1' }).click()
    await page.getByRole('dialog').waitFor()
    await page.goBack()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('heading', { level: 1, name: 'Failed' }).waitFor()
  })

  test('a condition that is refused can be corrected', async () => {
    await using tab = await openTab(world.url)
    await tab.page.goto('failed?scope=emails&since=nonsense')
    await tab.page.locator('main .notice').getByText('invalid-option').waitFor()
    expect(await tab.page.getByLabel('Consumer or relay').inputValue()).toBe('emails')
    await tab.page.getByRole('button', { name: 'Clear' }).click()
    await tab.page.getByText('the card was declined').first().waitFor()
  })

  test('what could not be counted is counted again', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.route('**/failed/count', (route) => route.abort())
    await page.goto('failed')
    await page.getByRole('button', { name: 'Retry all …' }).click()
    await page.getByText('They could not be counted').waitFor()
    await page.unroute('**/failed/count')
    await page.getByRole('button', { name: 'Count again' }).click()
    await page.getByText(/Exactly \d+ messages/).waitFor()
    expect(await page.getByRole('button', { name: /^Retry \d+ messages/ }).isEnabled()).toBe(true)
  })

  test('a note is as long as the server takes it, which counts bytes', async () => {
    const [found] = await world.hapax.failed.list({ consumer: 'billing' })
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.goto(`failed/${found?.seq}`)
    await page.getByRole('button', { name: 'Note …' }).click()
    const add = page.getByRole('button', { name: 'Add note' })
    await page.getByLabel('Note for the audit').fill('é'.repeat(501))
    await page.getByText('1,002 of at most 1,000 bytes').waitFor()
    expect(await add.isDisabled()).toBe(true)
    await page.getByLabel('Note for the audit').fill('é'.repeat(500))
    await add.click()
    await page.getByText(`The note was added to message ${found?.seq}.`).waitFor()
  })

  test('an id is searched as it is typed, and without the spaces around it if a person wants so', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    await page.goto('')
    await page.getByLabel('Find a message by its id').fill(' spaced ')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'search without them' }).waitFor()
    expect(new URL(page.url()).searchParams.get('id')).toBe(' spaced ')
    await page.getByRole('link', { name: 'search without them' }).click()
    await until(() => new URL(page.url()).searchParams.get('id') === 'spaced')
  })

  test('of messages with the same id, each payload says whose it is', async () => {
    await using other = await openWorld(durableStores()[0] ?? 'sqlite', { working: false })
    const consumer = other.hapax.consumer('raw').on(OrderPlaced, ({ fate }) => {
      if (fate !== undefined) throw new Permanent('refused')
    })
    const same = { id: 'same', type: OrderPlaced.type }
    await consumer.handle({ ...same, source: '/a', data: { n: 1 } })
    const data = { n: 2, fate: 'rejected', customer: `${'z'.repeat(90_000)}end` }
    await consumer.handle({ ...same, source: '/z', data })
    await using tab = await openTab(other.url)
    const { page } = tab
    await page.goto('message?id=same')
    await page.getByText('2 different messages have this id').waitFor()
    const [a, z] = ['/a', '/z'].map((source) => page.locator('section').filter({ hasText: `from ${source}` }))
    await a?.getByText('or there is none').waitFor()
    await z?.getByRole('button', { name: 'Load all' }).click()
    await z?.getByText('zend').waitFor()
    await page.getByRole('link', { name: 'See why' }).click()
    await page.getByText('It failed once.').waitFor()
    expect(tab.complaints).toEqual([])
  })

  test('a search of all rows is made once, however long the page is open', async () => {
    await using tab = await openTab(world.url)
    const { page } = tab
    const asked = { scan: 0 }
    page.on('request', (request) => {
      if (request.url().includes('scan=1')) asked.scan += 1
    })
    await page.goto('message?id=nobody-knows-it')
    await page.getByRole('button', { name: 'Search all rows' }).click()
    await page.getByText(/updated ([4-9]|\d\d) s ago/).waitFor()
    expect(asked.scan).toBe(1)
    await page.keyboard.press('r')
    await until(() => asked.scan === 2)
  })

  test('who releases the key of a failed message is told no number that is not known', async () => {
    const [held] = await world.hapax.keys.list()
    await using tab = await openTab(world.url)
    await tab.page.goto(`failed/${held?.failedSeq}`)
    await tab.page.getByRole('button', { name: 'Release its key …' }).click()
    await tab.page
      .getByRole('dialog')
      .getByText(/store\. Messages that wait behind it are processed/)
      .waitFor()
  })

  test('light or dark is as a person has chosen, also next time', async () => {
    await using tab = await openTab(world.url, { scheme: 'light' })
    const paper = 'getComputedStyle(document.documentElement).backgroundColor'
    await tab.page.goto('')
    const light = await tab.page.evaluate(paper)
    await tab.page.getByRole('button', { name: 'Light or dark' }).click()
    await until(async () => (await tab.page.evaluate(paper)) !== light)
    await tab.page.reload()
    await tab.page.getByRole('heading', { level: 1 }).waitFor()
    expect(await tab.page.evaluate(paper)).not.toBe(light)
  })
})

/** Stops the clock of the page, between two of its questions: how busy the machine is does not count. */
async function stopClock({ page }: Tab): Promise<void> {
  // Later than it can be there when this arrives.
  await page.clock.pauseAt(Number(await page.evaluate('Date.now()')) + 60_000)
  // The leap lets the page ask. An answer that came after time had passed would leave its next turn to a clock that stands still.
  await page.getByText('updated just now').waitFor()
}

const servers = durableStores().filter((store) => store !== 'sqlite')

describe.skipIf(withoutBrowser).for(oneInTest(servers, 'postgres'))('a console on %s that stops', (store) => {
  test('says so within three seconds, keeps the last good answer, and recovers', async () => {
    await using proxy = await TcpProxy.open(store, requireServer(store))
    await using world = await openWorld(store, { through: proxy.url })
    await fill(world, 3)
    await using tab = await openTab(world.url)
    await tab.page.clock.install()
    await tab.page.goto('failed')
    await tab.page.getByText('the card was declined').first().waitFor()
    await stopClock(tab)
    await proxy.refuse()
    await tab.page.clock.runFor(2_999)
    await tab.page.locator('main .notice').first().waitFor()
    await tab.page.clock.resume()
    await tab.page.getByText('the last good answer').waitFor()
    await tab.page.getByText('the card was declined').first().waitFor()
    await proxy.accept()
    await tab.page.locator('main .notice').first().waitFor({ state: 'detached' })
    expect(tab.complaints).toEqual([])
  })

  test('says so within three seconds where it is silent, too', async () => {
    await using proxy = await TcpProxy.open(store, requireServer(store))
    await using world = await openWorld(store, { through: proxy.url, working: false })
    await using tab = await openTab(world.url)
    await tab.page.clock.install()
    await tab.page.goto('keys')
    await tab.page.getByRole('heading', { name: 'No key is held' }).waitFor()
    await stopClock(tab)
    let isSilent = false
    void proxy.arm('hold', /heldat|held_at/i).then(() => {
      isSilent = true
    })
    await until(async () => {
      await tab.page.clock.runFor(100)
      return isSilent
    })
    await tab.page.clock.runFor(2_900)
    await tab.page.locator('main .notice').first().waitFor()
    await tab.page.clock.resume()
    await tab.page.getByRole('heading', { name: 'No key is held' }).waitFor()
    proxy.cut()
    await tab.page.locator('main .notice').first().waitFor({ state: 'detached' })
    expect(tab.complaints).toEqual([])
  })
})

const TWO_FRAMES = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))`
