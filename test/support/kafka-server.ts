import { pingKafka } from '../../scripts/services/kafka-ping.ts'
import { serverVariables } from './servers.ts'

const url = process.env[serverVariables.kafka]

/** What the tests run on: `Kafka 4.3`, or `Kafka protocol mock`; undefined where there is neither. */
export const kafkaServer: string | undefined = url ? await pingKafka(url) : undefined

/** Whether it is the mock, which knows less than a broker. */
export const isMock: boolean = kafkaServer === 'Kafka protocol mock'
