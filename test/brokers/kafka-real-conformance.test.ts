import { Admin } from '@platformatic/kafka'
import { describe, expect, it } from 'vitest'
import { run } from '../support/conformance.ts'
import { noRealKafka, realKafka } from '../support/kafka-real.ts'

const noBroker = noRealKafka()
describe.skipIf(noBroker !== undefined)(`on a real Kafka${noBroker ? `: ${noBroker}` : ''}`, () => {
  it('says what holds, and leaves no topic or group behind', async () => {
    await using server = await realKafka()
    const report = await run('--broker', server.url, 'putting back')
    expect(report).toMatchObject({ exitCode: 0, stderr: '' })
    expect(report.stdout).toMatch(/Kafka \d+\.\d+: 10 cases/)
    const [name = 'none'] = /hapax_conformance_\w+/.exec(report.stdout) ?? []
    const admin = new Admin({ clientId: 'test', bootstrapBrokers: [new URL(server.url).host] })
    const left = [...(await admin.listTopics()), ...(await admin.listGroups()).keys()]
    await admin.close()
    expect(left.filter((each) => each.startsWith(name))).toEqual([])
  })
})
