import type { KafkaBroker } from '../../brokers/kafka/index.ts'

type Library = typeof import('@platformatic/kafka')

/** Which Kafka a broker is, as `4.3`; undefined for those that do not tell. */
export async function kafkaVersion(library: Library, broker: KafkaBroker): Promise<string | undefined> {
  const level = await metadataLevel(library, broker)
  if (level === undefined) return undefined
  return LEVELS.find(([from]) => level >= from)?.[1] ?? 'before 3.9'
}

/** How new the metadata is that a broker understands: it does not say its own version. */
async function metadataLevel(
  { apiVersionsV4, Connection }: Library,
  { host, port }: KafkaBroker,
): Promise<number | undefined> {
  const connection = new Connection('hapax', { connectTimeout: 5_000 })
  try {
    await connection.connect(host, port)
    const { supportedFeatures } = await apiVersionsV4.api.async(connection, 'hapax', '1')
    return supportedFeatures?.find(({ name }) => name === 'metadata.version')?.maxVersion
  } catch {
    return undefined
  } finally {
    await connection.close()
  }
}

/** The first level of each version, the newest first. */
const LEVELS = [
  [30, '4.3'],
  [28, '4.2'],
  [26, '4.1'],
  [22, '4.0'],
  [21, '3.9'],
] as const
