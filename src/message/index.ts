export { type Arrival, checkMapping, decodeArrival, type Mapping } from './arrival.ts'
export {
  arrivalOf,
  type EventFormat,
  encodeEvent,
  isStructured,
  type OutgoingMessage,
  percentDecode,
  percentEncode,
  sortHeaders,
} from './cloudevents.ts'
export { fingerprint, type KeyRange, keyRange, messageId, messageKey } from './identity.ts'
export {
  decode,
  type Entry,
  type IntakePolicy,
  intake,
  isIndexed,
  isJson,
  isName,
  MAX_TEXT_BYTES,
  type MissingId,
  textRule,
} from './incoming.ts'
export { parseJson } from './json.ts'
export { ALL_LANES, LANES, laneOf, laneOfKey, lanesOf, ownerOf } from './lanes.ts'
export {
  type IncomingMessage,
  type LeavingMessage,
  type Message,
  type MessageAttributes,
  packAttributes,
  type StoredMessage,
  unpackAttributes,
  wrongAttribute,
} from './message.ts'
export { jsonOf, type Payload, payloadOf } from './payload.ts'
export type { StandardSchema } from './schema.ts'
export { compareSeq, isSeq, markOf, newMark, numberOf, seqOf } from './seq.ts'
export { asciiJson, inAscii, STUB_BYTES, type Stub, shortened, stubOf } from './stub.ts'
export { decodeText, encodeText } from './text.ts'
export type { MessageOptions } from './type.ts'
export { type Draft, defineMessage, type MessageType, messageType, type PublishOptions } from './type.ts'
