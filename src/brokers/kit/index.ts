export { Deliveries, type Handle, type Incoming } from './deliveries.ts'
export { type Encoder, encoderOption, unencodable } from './encode.ts'
export { LowWater, type Place } from './low-water.ts'
export { type DeclareOption, declareOption } from './options.ts'
