import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cached } from '../servers/cache.ts'
import { pingKafka } from './kafka-ping.ts'
import { findPrograms, newestFirst } from './programs.ts'
import { type Instance, type Launch, LOOPBACK, type Startable } from './service.ts'

export const fetchedVersion = '4.3.1'
export const javaPackages = ['default-jre-headless']

/** Apache Kafka without ZooKeeper: a broker and a controller in one process. */
export const kafkaBroker: Startable = {
  title: 'Apache Kafka',
  name: 'kafka-broker',
  debianPackages: javaPackages,
  url: (port, address = LOOPBACK) => `kafka://${address}:${port}`,

  find() {
    const java = findJava()
    const home = findHome()
    if (java === undefined || home === undefined) return undefined
    return { from: home, user: 'nobody', launch: (instance) => launchBroker(java, home, instance) }
  },

  ping: pingKafka,
}

/** A Java 17 or later, which Kafka 4 needs. */
export function findJava(): string | undefined {
  const homes = process.env.JAVA_HOME ? [join(process.env.JAVA_HOME, 'bin')] : []
  const java = findPrograms(['java'], [...homes, '/usr/lib/jvm/*/bin'])?.java
  if (java === undefined) return undefined
  const { stderr } = spawnSync(java, ['-version'], { encoding: 'utf8' })
  return Number(/version "(\d+)/.exec(stderr)?.[1]) >= 17 ? java : undefined
}

/** Where a Kafka is that was fetched, if one was. */
export function fetchedHome(): string {
  return join(cached('kafka'), fetchedVersion)
}

/** A folder with the jars of Kafka in `libs`. */
function findHome(): string | undefined {
  const script = findPrograms(['kafka-server-start.sh'], [])?.['kafka-server-start.sh']
  const installed = [process.env.KAFKA_HOME, script && dirname(dirname(script)), ...newestFirst('/opt/kafka*')]
  const homes = [...installed, fetchedHome()]
  return homes.find((home): home is string => Boolean(home) && existsSync(join(home as string, 'libs')))
}

function launchBroker(java: string, home: string, instance: Instance): Launch {
  const run = (memory: string, main: string): [string, ...string[]] => {
    const log = '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'
    const quick = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData']
    const own = `-Djava.io.tmpdir=${instance.directory}`
    return [java, `-Xmx${memory}`, ...quick, log, own, '-cp', join(home, 'libs', '*'), main]
  }
  return {
    files: { 'server.properties': brokerSettings(instance) },
    prepare: [
      [...run('128m', 'kafka.tools.StorageTool'), 'format', '--cluster-id', clusterId, '--config', 'server.properties'],
    ],
    // Killed at once: the data is thrown away.
    server: { command: [...run('320m', 'kafka.Kafka'), 'server.properties'], stop: 'SIGKILL' },
  }
}

const clusterId = 'aGFwYXgtdGVzdHMtMDAwMQ'

/** A node of a cluster; alone, unless others are named. */
export interface BrokerNode extends Pick<Instance, 'port' | 'address'> {
  readonly nodes?: readonly Pick<Instance, 'port' | 'address'>[]
}

/** The settings of a node: few partitions and no waiting, where that changes nothing that tests are about. */
export function brokerSettings({ port, address, nodes = [{ port, address }] }: BrokerNode): string {
  const replicas = nodes.length
  const settings: Readonly<Record<string, string | number | boolean>> = {
    'process.roles': 'broker,controller',
    'node.id': 1 + nodes.findIndex((each) => each.port === port && each.address === address),
    'controller.quorum.voters': nodes.map((each, at) => `${at + 1}@${each.address}:${controllerPort(each)}`).join(','),
    listeners: `CLIENTS://${address}:${port},CONTROLLERS://${address}:${controllerPort({ port })}`,
    'listener.security.protocol.map': 'CLIENTS:PLAINTEXT,CONTROLLERS:PLAINTEXT',
    'inter.broker.listener.name': 'CLIENTS',
    'controller.listener.names': 'CONTROLLERS',
    'log.dirs': 'data',
    'num.partitions': 4,
    'default.replication.factor': replicas,
    'auto.create.topics.enable': false,
    'offsets.topic.num.partitions': replicas,
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': Math.ceil(replicas / 2),
    'log.cleaner.backoff.ms': 500,
    'group.initial.rebalance.delay.ms': 0,
    'group.consumer.session.timeout.ms': 6_000,
    'group.consumer.min.session.timeout.ms': 6_000,
    'group.consumer.heartbeat.interval.ms': 500,
    'group.consumer.min.heartbeat.interval.ms': 500,
  }
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/** Below the ports that `freePort` gives away. */
function controllerPort({ port }: { readonly port: number }): number {
  return port - 12_000
}
