import { defineMessage } from 'hapax'

/** The one message of the soak: `n` is its place among the messages of its key. */
export interface EntryData {
  readonly key: string
  readonly n: number
}

export const Entry = defineMessage<EntryData>('entry', { key: ({ key }) => key })
