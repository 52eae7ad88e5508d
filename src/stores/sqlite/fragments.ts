// Parts that statements share: columns as the engine reads them, parameters, times.

export const LATER: string = `cast(round(unixepoch('subsec') * 1000 + ?) as integer)`
export const UUID: string = `unhex(?, '-')`
export const MESSAGE: string = 'message_key, source, id, type, key, attributes, data, fingerprint'
export const SEQ: string = 'cast(seq as text) as seq'
/** The numbers of a JSON array of texts. */
export const SEQS: string = '(select cast(value as integer) from json_each(?))'
/** A whole row of the inbox. */
export const INBOX: string = `${SEQ}, consumer, ${MESSAGE}, ordered, attempts, lost, starts, crashes, lease_token, fence`
