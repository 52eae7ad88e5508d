import { isIP } from 'node:net'

/** A block of addresses, as in `10.0.0.0/8`. */
export interface Block {
  readonly bytes: Uint8Array
  readonly bits: number
}

/** The 4 or 16 bytes of an address. Undefined: it is none, or has a zone, which only means something on this machine. */
export function addressBytes(text: string): Uint8Array | undefined {
  const version = isIP(text)
  if (version === 0 || text.includes('%')) return undefined
  return Uint8Array.from(version === 4 ? text.split('.').map(Number) : sixBytes(text))
}

/** `isIP` has checked the form: at most one `::`, and dotted digits only at the end. */
function sixBytes(text: string): number[] {
  const [head = '', tail = ''] = text.split('::')
  const before = groupBytes(head)
  const after = groupBytes(tail)
  return [...before, ...Array<number>(16 - before.length - after.length).fill(0), ...after]
}

function groupBytes(text: string): number[] {
  return text === ''
    ? []
    : text.split(':').flatMap((group) => (group.includes('.') ? group.split('.').map(Number) : twoBytes(group)))
}

function twoBytes(group: string): number[] {
  const value = Number.parseInt(group, 16)
  return [value >> 8, value & 0xff]
}

/** A block such as `10.1.2.0/24`, or one address. Undefined: it is none, or has bits behind its prefix. */
export function blockOf(text: string): Block | undefined {
  const [address = '', length, ...more] = text.split('/')
  const bytes = addressBytes(address)
  if (bytes === undefined || more.length > 0) return undefined
  const most = bytes.length * 8
  if (length === undefined) return { bytes, bits: most }
  if (!/^(?:0|[1-9]\d{0,2})$/.test(length) || Number(length) > most) return undefined
  const block = { bytes, bits: Number(length) }
  return isPrefix(block) ? block : undefined
}

function isPrefix({ bytes, bits }: Block): boolean {
  return bytes.every((byte, index) => (byte & ~maskOf(bits, index) & 0xff) === 0)
}

/** The bits of byte `index` that belong to a prefix of this length. */
function maskOf(bits: number, index: number): number {
  const own = Math.min(8, Math.max(0, bits - index * 8))
  return (0xff << (8 - own)) & 0xff
}

/** Whether an address is in a block. One of IPv4 is never in one of IPv6. */
export function isIn({ bytes, bits }: Block, address: Uint8Array): boolean {
  if (bytes.length !== address.length) return false
  return bytes.every((byte, index) => ((byte ^ (address[index] ?? 0)) & maskOf(bits, index)) === 0)
}

function table(...rows: readonly string[]): readonly Block[] {
  return rows.map((row) => {
    const block = blockOf(row)
    if (block === undefined) throw new Error(`${row} is no block of addresses`)
    return block
  })
}

/** Everything that is not below 224, and the blocks below that are not routed on the internet (IANA's special-purpose registry). */
const FORBIDDEN_4 = table(
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared by carriers; metadata of Alibaba Cloud
  '127.0.0.0/8', // this machine
  '168.63.129.16/32', // a public address, by which machines in Azure reach their host
  '169.254.0.0/16', // link-local; metadata of most clouds
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments; metadata of Oracle Cloud
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT
  '192.88.99.0/24', // relays of 6to4
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
)

/** The only block of IPv6 from which global addresses are assigned. Mapped, translated, local and multicast ones are all outside. */
const GLOBAL_6 = table('2000::/3')

const FORBIDDEN_6 = table(
  '2001::/23', // protocol assignments: Teredo, benchmarks, AMT, ORCHID
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4: contains an address of IPv4
  '2620:4f:8000::/48', // AS112
  '3ffe::/16', // the 6bone, returned
  '3fff::/20', // documentation
)

const [MAPPED] = table('::ffff:0:0/96')

/** The address of IPv4 that a mapped one stands for: a socket connects to that. Others stay as they are. */
export function unmapped(address: Uint8Array): Uint8Array {
  return MAPPED !== undefined && isIn(MAPPED, address) ? address.subarray(12) : address
}

/** Whether an address is one on the internet, by its bytes. What is not known to be one is none. */
export function isPublic(address: Uint8Array): boolean {
  if (address.length === 4) return !FORBIDDEN_4.some((block) => isIn(block, address))
  return GLOBAL_6.some((block) => isIn(block, address)) && !FORBIDDEN_6.some((block) => isIn(block, address))
}
