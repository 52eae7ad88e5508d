/**
 * The function `publish` for programs in other languages: it writes the row that `hapax.publish` would write. Everything in it
 * is computed as in `src/core`: identity.ts, lanes.ts, message.ts and uuid.ts; a test compares them.
 */
export function publishFunction(schema: string): string {
  return `create function ${schema}.publish(
  source text,
  type text,
  data text default 'none',
  key text default null,
  id text default null,
  subject text default null,
  headers text default null,
  correlation_id text default null,
  causation_id text default null,
  traceparent text default null,
  tracestate text default null,
  delay_ms double precision default null,
  relay text default null
) returns text language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $publish$
#variable_conflict use_variable
declare
  moment timestamptz := clock_timestamp();
  microseconds bigint := round(extract(epoch from moment) * 1000000);
  payload bytea;
  message_key uuid;
  digest text;
  header record;
  packed_headers text;
  attributes text;
  lane integer;
  bytes bigint;
begin
  if id is null then
    -- A UUIDv7 whose twelve bits after the version count within the millisecond, so that ids rise.
    id := lpad(to_hex(microseconds / 1000), 12, '0') || '7' || lpad(to_hex(microseconds % 1000 * 4096 / 1000), 3, '0')
      || right(gen_random_uuid()::text, 17);
    id := substr(id, 1, 8) || '-' || substr(id, 9, 4) || '-' || substr(id, 13, 4) || '-' || right(id, 17);
  end if;
  relay := coalesce(relay, 'default');
  delay_ms := coalesce(delay_ms, 0);
  if source is null or source = '' or octet_length(convert_to(source, 'UTF8')) > 2048 then
    raise exception 'expected source to be a text of 1 to 2048 bytes' using errcode = '22023';
  elsif type is null or type = '' or octet_length(convert_to(type, 'UTF8')) > 255 then
    raise exception 'expected type to be a text of 1 to 255 bytes' using errcode = '22023';
  elsif id = '' or octet_length(convert_to(id, 'UTF8')) > 2048 then
    raise exception 'expected id to be null or a text of 1 to 2048 bytes' using errcode = '22023';
  elsif key = '' or octet_length(convert_to(key, 'UTF8')) > 2048 then
    raise exception 'expected key to be null or a text of 1 to 2048 bytes' using errcode = '22023';
  elsif relay = '' or octet_length(convert_to(relay, 'UTF8')) > 255 or relay ~ '[[:cntrl:]]' then
    raise exception 'expected relay to be null or a text of 1 to 255 bytes without control characters' using errcode = '22023';
  elsif not (delay_ms >= 0 and delay_ms <= 3153600000000) then
    raise exception 'expected delay_ms to be null or a number from 0 to 100 years, got %', delay_ms using errcode = '22023';
  elsif key is not null and delay_ms > 0 then
    raise exception 'expected delay_ms to be absent on a message with a key, because it would hold up what comes after it'
      using errcode = '22023';
  elsif data is null then
    raise exception 'expected data to be the text of a JSON value, or none, got null' using errcode = '22023';
  elsif data = '' then
    raise exception 'expected data to be the text of a JSON value, or none, got an empty text' using errcode = '22023';
  end if;

  -- A message without data. No program makes this word by accident, as it may make an empty text.
  data := case when data = 'none' then '' else data end;
  begin
    if data <> '' then
      perform data::json;
    end if;
  exception when invalid_text_representation then
    raise exception 'expected data to be the text of a JSON value, or none: %', sqlerrm using errcode = '22023';
  end;

  if headers is not null then
    begin
      if json_typeof(headers::json) <> 'object' then
        raise exception 'expected headers to be a JSON object of texts, got %', json_typeof(headers::json) using errcode = '22023';
      end if;
      packed_headers := '';
      for header in select * from json_each(headers::json) as pair (name, value) loop
        if json_typeof(header.value) <> 'string' then
          raise exception 'expected header % to be a text, got %', header.name, json_typeof(header.value) using errcode = '22023';
        end if;
        packed_headers := packed_headers || case when packed_headers = '' then '' else ',' end
          || to_json(header.name)::text || ':' || to_json(header.value #>> '{}')::text;
      end loop;
    exception when invalid_text_representation or untranslatable_character then
      raise exception 'expected headers to be a JSON object of texts: %', sqlerrm using errcode = '22023';
    end;
  end if;

  attributes := '{'
    || coalesce('"subject":' || to_json(subject)::text || ',', '')
    || '"time":"' || to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'
    || ',"datacontenttype":"application/json"'
    || coalesce(',"correlationId":' || to_json(correlation_id)::text, '')
    || coalesce(',"causationId":' || to_json(causation_id)::text, '')
    || coalesce(',"traceparent":' || to_json(traceparent)::text, '')
    || coalesce(',"tracestate":' || to_json(tracestate)::text, '')
    || coalesce(',"headers":{' || packed_headers || '}', '')
    || '}';
  payload := convert_to(data, 'UTF8');
  bytes := octet_length(payload) + octet_length(convert_to(attributes, 'UTF8'));
  if bytes > 1048576 then
    raise exception 'expected a message of at most 1048576 bytes, got %', bytes using errcode = '22023';
  end if;

  digest := encode(sha256(convert_to(
    octet_length(convert_to(source, 'UTF8')) || ':' || source || ',' || octet_length(convert_to(id, 'UTF8')) || ':' || id || ',',
    'UTF8')), 'hex');
  message_key := (
    case when id ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
      then substr(id, 1, 8) || substr(id, 10, 4) else '000000000000' end
    || '8' || substr(digest, 2, 3)
    || substr('89ab89ab89ab89ab', get_byte(decode('0' || substr(digest, 5, 1), 'hex'), 0) + 1, 1)
    || substr(digest, 6, 15))::uuid;
  lane := case when key is null then get_byte(decode(right(message_key::text, 2), 'hex'), 0)
    else get_byte(sha256(convert_to(key, 'UTF8')), 0) end % 64;

  -- A text that begins with U+0001 means an escaped one in the tables.
  insert into ${schema}.outbox
    (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
  values (relay, message_key,
    case when left(source, 1) = chr(1) then chr(1) || replace(source, '%', '%25') else source end,
    case when left(id, 1) = chr(1) then chr(1) || replace(id, '%', '%25') else id end,
    case when left(type, 1) = chr(1) then chr(1) || replace(type, '%', '%25') else type end,
    case when left(key, 1) = chr(1) then chr(1) || replace(key, '%', '%25') else key end,
    attributes, payload, substr(sha256(payload), 1, 8), clock_timestamp() + delay_ms * interval '1 millisecond', lane);
  return id;
end
$publish$`
}
