import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { createHapax, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { expect, it } from 'vitest'

const AUTHENTICATED = Buffer.from('R\0\0\0\x08\0\0\0\0', 'latin1')
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1')
const FIELDS = 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'
const TERMINATED = Buffer.concat([
  Buffer.from(`E\0\0\0${String.fromCharCode(FIELDS.length + 4)}`, 'latin1'),
  Buffer.from(FIELDS),
])

it('E8: a connection that is ended in the packet that opens it does not end the process', async () => {
  await using server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATED, READY, TERMINATED])))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const pool = new pg.Pool({ host: '127.0.0.1', port, user: 'hapax', database: 'hapax' })
  const hapax = createHapax({ store: postgres({ pool }), source: '/shop', logger: silentLogger })
  await expect(hapax.transaction(async () => {})).rejects.toMatchObject({ code: 'store-unavailable' })
  await expect(hapax.status()).rejects.toMatchObject({ code: 'store-unavailable' })
  await hapax.close()
  await pool.end()
})
