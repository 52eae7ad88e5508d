<?php

// Symfony Messenger as an application has it: its bus, JSON serializer, AMQP transport, worker, retries and failure transport, from the
// packages of Debian. `php messenger.php send|work|encode <job as JSON>`; it prints a line of JSON for each thing that happens.

namespace {
    foreach (['Component/Messenger', 'Component/EventDispatcher', 'Component/Serializer', 'Component/PropertyAccess', 'Component/PropertyInfo', 'Contracts/Service'] as $part) {
        require_once "/usr/share/php/Symfony/$part/autoload.php";
    }
    // Symfony's own deprecations are no concern of ours.
    error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
}

namespace App\Message {
    final class OrderPlaced
    {
        public function __construct(public string $eventId, public string $orderId, public int $amount)
        {
        }
    }
}

// A stamp of the application, as the guide has it.
namespace App\Messenger {
    final class MessageIdStamp implements \Symfony\Component\Messenger\Stamp\StampInterface
    {
        public function __construct(public string $messageId)
        {
        }
    }
}

// The bundle freyr/message-broker names the stamp so, and its id travels in it.
namespace Freyr\MessageBroker\Contracts {
    final class MessageIdStamp implements \Symfony\Component\Messenger\Stamp\StampInterface
    {
        public function __construct(public string $messageId)
        {
        }
    }
}

namespace {
    use App\Message\OrderPlaced;
    use Freyr\MessageBroker\Contracts\MessageIdStamp;
    use Symfony\Component\EventDispatcher\EventDispatcher;
    use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
    use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
    use Symfony\Component\Messenger\Bridge\Amqp\Transport\Connection;
    use Symfony\Component\Messenger\Envelope;
    use Symfony\Component\Messenger\Event\WorkerRunningEvent;
    use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
    use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
    use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
    use Symfony\Component\Messenger\Handler\HandlersLocator;
    use Symfony\Component\Messenger\MessageBus;
    use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
    use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
    use Symfony\Component\Messenger\Middleware\StackInterface;
    use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
    use Symfony\Component\Messenger\Stamp\BusNameStamp;
    use Symfony\Component\Messenger\Transport\Serialization\Serializer;
    use Symfony\Component\Messenger\Worker;
    use Symfony\Contracts\Service\ServiceLocatorTrait;

    final class Locator implements Psr\Container\ContainerInterface
    {
        use ServiceLocatorTrait;
    }

    /** The middleware that many applications have: the id of the message and the handler's writes commit together. */
    final class OnceMiddleware implements MiddlewareInterface
    {
        public function __construct(private PDO $pdo, private Closure $idOf)
        {
        }

        public function handle(Envelope $envelope, StackInterface $stack): Envelope
        {
            $this->pdo->beginTransaction();
            try {
                $id = ($this->idOf)($envelope);
                if ($id === null || $this->isNew($id)) {
                    $envelope = $stack->next()->handle($envelope, $stack);
                } else {
                    say(['duplicate' => $id]);
                }
                $this->pdo->commit();

                return $envelope;
            } catch (Throwable $error) {
                $this->pdo->rollBack();
                throw $error;
            }
        }

        private function isNew(string $id): bool
        {
            $insert = $this->pdo->prepare('insert into processed_messages (message_id) values (?) on conflict do nothing');
            $insert->execute([$id]);

            return $insert->rowCount() === 1;
        }
    }

    function say(array $what): void
    {
        fwrite(STDOUT, json_encode($what, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES)."\n");
    }

    [, $command, $text] = $argv;
    $job = json_decode($text, true, 512, JSON_THROW_ON_ERROR);

    $transport = static function (string $queue) use ($job): AmqpTransport {
        $options = ['exchange' => ['name' => $queue, 'type' => 'fanout'], 'queues' => [$queue => []], 'delay' => ['exchange_name' => $job['queue'].'-delays']];

        return new AmqpTransport(Connection::fromDsn($job['broker'], $options), serializer($job));
    };

    function serializer(array $job): Serializer
    {
        // A name of the wire instead of the class, as an application's own serializer and freyr's have it.
        return isset($job['name']) ? new class($job['name']) extends Serializer {
            public function __construct(private string $name)
            {
                parent::__construct();
            }

            public function decode(array $encodedEnvelope): Envelope
            {
                if (($encodedEnvelope['headers']['type'] ?? null) === $this->name) {
                    $encodedEnvelope['headers']['type'] = OrderPlaced::class;
                }

                return parent::decode($encodedEnvelope);
            }
        } : new Serializer();
    }

    $idOf = static fn (Envelope $envelope): ?string => ($job['idFrom'] ?? 'data') === 'stamp'
        ? ($envelope->last(MessageIdStamp::class) ?? $envelope->last(App\Messenger\MessageIdStamp::class))?->messageId
        : $envelope->getMessage()->eventId;

    $envelopes = static function () use ($job): array {
        return array_map(static function (array $order) use ($job): Envelope {
            $stamps = [new BusNameStamp('messenger.bus.default')];
            if (($job['idFrom'] ?? null) === 'stamp') {
                $stamps[] = new MessageIdStamp($order['eventId']);
            }
            if (($job['idFrom'] ?? null) === 'property') {
                $stamps[] = new AmqpStamp(null, AMQP_NOPARAM, ['message_id' => $order['eventId']]);
            }

            return new Envelope(new OrderPlaced($order['eventId'], $order['orderId'], $order['amount']), $stamps);
        }, $job['orders']);
    };

    if ($command === 'send') {
        foreach ($envelopes() as $envelope) {
            $transport($job['queue'])->send($envelope);
        }
    } elseif ($command === 'work') {
        $queue = $transport($job['queue']);
        $failed = $transport($job['queue'].'-failed');
        $pdo = new PDO($job['database'], null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        $handle = static function (OrderPlaced $order) use ($pdo): void {
            if (str_starts_with($order->orderId, 'bad')) {
                say(['failing' => $order->eventId]);
                throw new RuntimeException('the card was declined');
            }
            $pdo->prepare('insert into invoices (order_id, amount) values (?, ?)')->execute([$order->orderId, $order->amount]);
            say(['handled' => $order->eventId]);
        };
        $bus = new MessageBus([
            new OnceMiddleware($pdo, $idOf),
            new HandleMessageMiddleware(new HandlersLocator([OrderPlaced::class => [$handle]])),
        ]);
        $events = new EventDispatcher();
        $retries = new Locator(['orders' => static fn () => new MultiplierRetryStrategy($job['retries'] ?? 1, $job['delayMs'] ?? 200, 1)]);
        $events->addSubscriber(new AddErrorDetailsStampListener());
        $events->addSubscriber(new SendFailedMessageForRetryListener(new Locator(['orders' => static fn () => $queue]), $retries));
        $events->addSubscriber(new SendFailedMessageToFailureTransportListener(new Locator(['orders' => static fn () => $failed])));
        $failed->setup();
        $queue->setup();
        $until = $job['until'] ?? 'idle';
        $handled = 0;
        $events->addListener(WorkerRunningEvent::class, static function (WorkerRunningEvent $event) use ($until, &$handled): void {
            $handled += $event->isWorkerIdle() ? 0 : 1;
            if ($until === 'idle' ? $event->isWorkerIdle() : $handled === $until) {
                $event->getWorker()->stop();
            }
        });
        (new Worker(['orders' => $queue], $bus, $events))->run(['sleep' => 20_000]);
    } elseif ($command === 'encode') {
        // What a failure transport on Doctrine has in its columns.
        foreach ($envelopes() as $envelope) {
            say(serializer($job)->encode($envelope));
        }
    }
}
