import assert from 'node:assert/strict'
import { present } from '../../../base/index.ts'
import { defineMessage, eventOf, messageKey, spreadMessages, spreadSource } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import { type AnyStore, gate, Ping } from '../world.ts'
import { CONSUMER, publish, register, TestReceivers } from './world.ts'

const Placed = defineMessage<{ n: number }>('order.placed')
const Paid = defineMessage<{ n: number }>('order.paid')
const Shipped = defineMessage<{ n: number }>('shipment.sent')

/** Which endpoints get what. */
export const spreading: readonly Case[] = [
  {
    name: 'every endpoint gets the events of the types that it wants, as they were published, once each',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_all'])
      await register(world, ['ep_orders'], ['order.*'])
      await register(world, ['ep_paid'], ['order.paid', 'order'])
      await register(world, ['ep_none'], ['orders.*'])
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Placed, { n: 1 }, { id: 'placed', key: 'k', headers: { tenant: 'x' }, subject: 's' })
        await hapax.publish(tx, Paid, { n: 2 }, { id: 'paid' })
        await hapax.publish(tx, Shipped, { n: 3 }, { id: 'shipped' })
      })
      const receivers = new TestReceivers()
      const worker = await world.worker({ hapax }, { relay: receivers })
      await worker.drain()
      const got = receivers.seen.map(({ endpoint, message }) => `${endpoint} ${message.id}`).sort()
      assert.deepEqual(got, [
        'ep_all paid',
        'ep_all placed',
        'ep_all shipped',
        'ep_orders paid',
        'ep_orders placed',
        'ep_paid paid',
      ])
      const placed = receivers.seen.find(({ message }) => message.id === 'placed')?.message
      assert.ok(placed)
      const { time, data, ...others } = placed
      assert.deepEqual(others, {
        id: 'placed',
        source: '/test',
        type: 'order.placed',
        key: 'k',
        subject: 's',
        datacontenttype: 'application/json',
        headers: { tenant: 'x' },
      })
      assert.equal(Buffer.from(data).toString(), '{"n":1}')
      assert.ok(Math.abs(Date.parse(time ?? '') - Date.now()) < 3_600_000)
    },
  },
  {
    name: 'an event that no endpoint wants is dropped, and that is told',
    run: async (world) => {
      const hapax = world.hapax()
      const dropped: string[] = []
      const relayed: string[] = []
      hapax.events.on('relay-dropped', ({ message }) => void dropped.push(message.id))
      hapax.events.on('relayed', ({ message }) => void relayed.push(message.id))
      await register(world, ['ep_a'], ['order.*'])
      await publish(hapax, ['-1'])
      const receivers = new TestReceivers()
      await (await world.worker({ hapax }, { relay: receivers })).drain()
      assert.deepEqual([dropped, relayed, receivers.seen], [['-1'], [], []])
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'an endpoint gets what is published after it was added, and nothing while it is disabled',
    run: async (world) => {
      const hapax = world.hapax()
      const receivers = new TestReceivers()
      await register(world, ['ep_a'])
      const worker = await world.worker({ hapax }, { relay: receivers })
      const round = async (id: string): Promise<void> => {
        await publish(hapax, [id])
        await worker.drain()
      }
      await round('-1')
      await register(world, ['ep_b'])
      await round('-2')
      await world.store.endpoints.change(
        'ep_a',
        { enabled: false, reason: 'moving' },
        { actor: 'ann', action: 'change' },
      )
      await round('-3')
      await world.store.endpoints.change('ep_a', { enabled: true, reason: null }, { actor: 'ann', action: 'change' })
      await round('-4')
      assert.deepEqual(receivers.firsts('ep_a'), ['-1', '-2', '-4'])
      assert.deepEqual(receivers.firsts('ep_b'), ['-2', '-3', '-4'])
    },
  },
  {
    name: 'A1: an event that is spread again, because its outbox row could not be deleted, is delivered once',
    run: async (world) => {
      let left = 2
      const confirm: AnyStore['outbox']['confirm'] = (seqs, keep) => {
        left -= 1
        return left >= 0 ? Promise.reject(new Error('not now')) : world.store.outbox.confirm(seqs, keep)
      }
      const hapax = world.hapax({ store: altered(world.store, { outbox: { confirm } }) })
      await register(world, ['ep_a', 'ep_b'])
      await publish(hapax, ['a1', 'a2', '-1'])
      const receivers = new TestReceivers()
      const worker = await world.worker({ hapax }, { relay: receivers })
      await world.until(async () => (await world.database.outbox()).length === 0)
      await worker.drain()
      assert.equal(left < 0, true)
      assert.equal(receivers.seen.length, 6)
      assert.deepEqual(
        receivers.firsts('ep_a').filter((id) => id !== '-1'),
        ['a1', 'a2'],
      )
    },
  },
  ...(['before', 'after'] as const).map(
    (cut): Case => ({
      name: `B3: a link that breaks ${cut} the commit of a spread costs no delivery and makes none twice`,
      run: async (world) => {
        const hapax = world.hapax()
        await register(world, ['ep_a', 'ep_b'])
        await publish(hapax, ['a1', 'a2'])
        const receivers = new TestReceivers()
        const cutOff = world.hapax({ store: lossy(world.store, cut) })
        await (await world.worker({ hapax: cutOff }, { relay: receivers })).drain()
        assert.equal(receivers.seen.length, 4)
        for (const endpoint of ['ep_a', 'ep_b']) assert.deepEqual(receivers.firsts(endpoint), ['a1', 'a2'])
      },
    }),
  ),
  {
    name: 'while the endpoints cannot be read, events stay in the outbox, in their order',
    run: async (world) => {
      let away = true
      const failed = gate()
      const list: AnyStore['endpoints']['list'] = (relay) => {
        if (away) failed.open()
        return away ? Promise.reject(new Error('no answer')) : world.store.endpoints.list(relay)
      }
      const hapax = world.hapax({ store: altered(world.store, { endpoints: { list } }) })
      await register(world, ['ep_a'])
      const receivers = new TestReceivers()
      const worker = await world.worker({ hapax }, { relay: receivers })
      const ids = Array.from({ length: 20 }, (_, n) => `a${n}`)
      for (const id of ids) await publish(hapax, [id])
      await failed.passed
      assert.equal((await world.database.outbox()).length, 20)
      away = false
      await worker.drain()
      await world.until(() => receivers.seen.length >= 20)
      assert.deepEqual(receivers.firsts('ep_a'), ids)
    },
  },
  {
    name: 'other consumers of the same types get nothing of what is spread',
    run: async (world) => {
      const reader = world.reader()
      await register(world, ['ep_a'])
      const receivers = new TestReceivers()
      const worker = await world.worker(reader, { relay: receivers })
      await publish(reader.hapax, ['-1'])
      await worker.drain()
      assert.deepEqual([receivers.firsts('ep_a'), reader.calls], [['-1'], []])
      const receipt = (await world.store.admin.trace('-1', spreadSource('ep_a', '/test'))).map(({ where }) => where)
      assert.deepEqual(receipt.sort(), ['effect', 'receipt'])
      const [effect] = await world.store.journal.of(CONSUMER, messageKey(spreadSource('ep_a', '/test'), '-1'))
      assert.deepEqual([effect?.name, effect?.state], ['deliver', 'done'])
      const log: unknown = JSON.parse(effect?.result ?? '')
      assert.ok(typeof log === 'object' && log !== null && 'code' in log && 'ms' in log && 'answer' in log)
      assert.deepEqual([log.code, log.answer], [200, 'ok'])
    },
  },
  {
    name: 'J5: payloads arrive byte for byte, and so do keys of every length, except those that are too long to be sent along',
    run: async (world) => {
      const hapax = world.hapax()
      await register(world, ['ep_a'])
      const bytes = Buffer.from([0, 255, 254, 10])
      const Raw = defineMessage<Uint8Array>('raw')
      const long = 'k'.repeat(2_047)
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Raw, bytes, { id: 'bytes', key: 'a b' })
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'long', key: long })
      })
      const receivers = new TestReceivers()
      await (await world.worker({ hapax }, { relay: receivers })).drain()
      const by = (id: string) => receivers.seen.find(({ message }) => message.id === id)?.message
      assert.deepEqual(Buffer.from(by('bytes')?.data ?? []), bytes)
      assert.deepEqual([by('bytes')?.key, by('long')?.key], ['a b', undefined])
      const sample = { id: '1', source: '/a b', type: 't', key: 'x', data: new Uint8Array() }
      const copy = present(spreadMessages(['ep_a'], sample)[0], 'the copy')
      assert.deepEqual(
        eventOf({ id: '1', source: copy.source, type: 't', key: copy.key ?? '', data: 0 }, sample.data).event,
        sample,
      )
    },
  },
]
