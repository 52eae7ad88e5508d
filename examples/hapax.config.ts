import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'

// What `npx hapax work` runs, and where all other commands find the database.
const store = sqlite({ path: 'shop.db' })
const hapax = createHapax({ store, source: '/shop', delivery: 'local' })

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, (order) => console.log(`billed ${order.orderId}`))

export default { store, hapax, worker: hapax.worker({ consume: [billing] }) }
