import { fieldOf } from '../../base/index.ts'
import { chainOf } from './errors.ts'

/** The error codes that the broker returned for the partitions of one send; 0 is success. */
export type Answers = ReadonlyMap<number, number>

interface ProduceResponse {
  readonly responses: readonly {
    readonly partitionResponses: readonly { readonly index: number; readonly errorCode: number }[]
  }[]
}

/**
 * Reads the answers of single partitions out of the error of a send. The client fails a send as a whole when one partition fails.
 * A partition that succeeded in any attempt has succeeded. Partitions without an answer are not listed.
 */
export function answersOf(error: unknown): Answers {
  const answers = new Map<number, number>()
  const add = (partition: number, code: number): void => {
    if (answers.get(partition) !== 0) answers.set(partition, code)
  }
  for (const { produced, response } of chainOf(error)) {
    for (const { partition } of produced?.offsets ?? []) add(partition, 0)
    for (const { partitionResponses } of isProduceResponse(response) ? response.responses : []) {
      for (const { index, errorCode } of partitionResponses ?? []) add(index, errorCode)
    }
  }
  return answers
}

function isProduceResponse(response: unknown): response is ProduceResponse {
  return Array.isArray(fieldOf(response, 'responses'))
}
