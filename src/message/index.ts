export { type Arrival, checkMapping, decodeArrival, type Mapping } from './arrival.ts'
export {
  arrivalOf,
  contentTypeOf,
  type EncodedEvent,
  type EventFormat,
  eachOwnAttribute,
  encodeEvent,
  isStructured,
  type OutgoingMessage,
  percentDecode,
  percentEncode,
  sharedAttributes,
  sortHeaders,
} from './cloudevents.ts'
export { factsOfIncoming, factsOfStored, storedTrace } from './facts.ts'
export { type Past, type PastFailure, pastOf, REMEMBERED, type Remembered, recordFailure, remember } from './history.ts'
export {
  decode,
  type IntakePolicy,
  intake,
  isIndexed,
  isJson,
  isName,
  isTextual,
  MAX_TEXT_BYTES,
  type MissingId,
  type Received,
  textRule,
} from './incoming.ts'
export { computedKey } from './key.ts'
export {
  ALL_LANES,
  compareSeq,
  isSeq,
  LANES,
  laneOf,
  laneOfKey,
  lanesOf,
  markOf,
  newMark,
  nextLanesOf,
  numberOf,
  ownerOf,
  seqOf,
} from './lanes.ts'
export {
  decodeText,
  encodeText,
  FINGERPRINT,
  fingerprint,
  fingerprintOf,
  IMPORTED,
  type IncomingMessage,
  importedMessage,
  type KeyRange,
  keyRange,
  type LeavingMessage,
  type Message,
  type MessageAttributes,
  messageId,
  messageKey,
  packAttributes,
  publishedAt,
  refusedMessage,
  type StoredMessage,
  sha256,
  unpackAttributes,
  wrongAttribute,
} from './message.ts'
export { jsonOf, type Payload, parseJson, payloadOf } from './payload.ts'
export { encodePlain, readPlain } from './plain.ts'
export type { StandardSchema } from './schema.ts'
export { deliveriesName, eventOf, isDeliveries, originOf, spreadMessages, spreadSource } from './spread.ts'
export { asciiJson, inAscii, STUB_BYTES, type Stub, shortened, stubOf } from './stub.ts'
export { inTimeOrder } from './time-order.ts'
export type { MessageOptions } from './type.ts'
export {
  checkPlace,
  DELIVERIES,
  type Draft,
  defineMessage,
  isMessageType,
  type MessageType,
  messageType,
  type Place,
  type PublishOptions,
} from './type.ts'
