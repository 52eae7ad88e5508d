export { Deliveries, type Handle, type Incoming } from './deliveries.ts'
export { LowWater, type Place } from './low-water.ts'
export { type DeclareOption, declareOption, formatOption } from './options.ts'
