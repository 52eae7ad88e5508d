/**
 * The procedure for programs in other languages: it writes the row that `hapax.publish` would write. Everything in it is
 * computed as in `src/core`: identity.ts, lanes.ts, message.ts and uuid.ts; a test compares them. A procedure, because a
 * function needs log_bin_trust_function_creators; no double quotes around texts and no backslashes, because modes of the
 * server change what they mean.
 */
export function publishProcedure(prefix: string): readonly string[] {
  return [
    `drop procedure if exists ${prefix}publish`,
    `create procedure ${prefix}publish(
  in p_source longtext character set utf8mb4,
  in p_type longtext character set utf8mb4,
  in p_data longtext character set utf8mb4,
  in p_key longtext character set utf8mb4,
  in p_id longtext character set utf8mb4,
  in p_options longtext character set utf8mb4,
  out published_id longtext character set utf8mb4
) modifies sql data sql security invoker
begin
  declare v_now datetime(6) default utc_timestamp(6);
  declare v_micros bigint default timestampdiff(microsecond, '1970-01-01', v_now);
  declare v_id longblob;
  declare v_relay longblob default 'default';
  declare v_delay double default 0;
  declare v_headers longtext character set utf8mb4;
  declare v_values longtext character set utf8mb4;
  declare v_attributes longblob;
  declare v_digest char(64) character set ascii;
  declare v_message_key binary(16);
  declare v_lane int;
  declare v_bytes bigint;
  declare v_index int default 0;
  declare v_problem varchar(128) character set utf8mb4;

  if p_options is not null then
    if not json_valid(p_options) or json_type(p_options) <> 'OBJECT' then
      signal sqlstate '22023' set message_text = 'expected options to be null or a JSON object';
    end if;
    if json_length(p_options) <> json_contains_path(p_options, 'one', '$.subject')
      + json_contains_path(p_options, 'one', '$.correlationId') + json_contains_path(p_options, 'one', '$.causationId')
      + json_contains_path(p_options, 'one', '$.traceparent') + json_contains_path(p_options, 'one', '$.tracestate')
      + json_contains_path(p_options, 'one', '$.headers') + json_contains_path(p_options, 'one', '$.delayMs')
      + json_contains_path(p_options, 'one', '$.relay') then
      signal sqlstate '22023' set message_text =
        'expected options to be subject, correlationId, causationId, traceparent, tracestate, headers, delayMs and relay';
    end if;
    set v_problem = case
      when json_type(json_extract(p_options, '$.subject')) <> 'STRING' then 'subject'
      when json_type(json_extract(p_options, '$.correlationId')) <> 'STRING' then 'correlationId'
      when json_type(json_extract(p_options, '$.causationId')) <> 'STRING' then 'causationId'
      when json_type(json_extract(p_options, '$.traceparent')) <> 'STRING' then 'traceparent'
      when json_type(json_extract(p_options, '$.tracestate')) <> 'STRING' then 'tracestate'
      when json_type(json_extract(p_options, '$.relay')) <> 'STRING' then 'relay' end;
    if v_problem is not null then
      set v_problem = concat('expected ', v_problem, ' to be a text');
      signal sqlstate '22023' set message_text = v_problem;
    end if;
    if json_type(json_extract(p_options, '$.delayMs')) not in ('INTEGER', 'DOUBLE', 'DECIMAL', 'UNSIGNED INTEGER') then
      signal sqlstate '22023' set message_text = 'expected delay_ms to be a number';
    end if;
    set v_relay = coalesce(json_unquote(json_extract(p_options, '$.relay')), 'default');
    set v_delay = coalesce(json_extract(p_options, '$.delayMs') + 0, 0);
    set v_headers = json_extract(p_options, '$.headers');
    if json_type(v_headers) <> 'OBJECT' then
      signal sqlstate '22023' set message_text = 'expected headers to be a JSON object of texts';
    end if;
    set v_values = json_extract(v_headers, '$.*');
    while v_index < coalesce(json_length(v_values), 0) do
      if json_type(json_extract(v_values, concat('$[', v_index, ']'))) <> 'STRING' then
        signal sqlstate '22023' set message_text = 'expected headers to be a JSON object of texts';
      end if;
      set v_index = v_index + 1;
    end while;
  end if;

  -- A UUIDv7 whose twelve bits after the version count within the millisecond, so that ids rise.
  set v_id = coalesce(p_id, insert(insert(insert(insert(lower(concat(
    lpad(hex(v_micros div 1000), 12, '0'), '7', lpad(hex(v_micros % 1000 * 4096 div 1000), 3, '0'),
    substr('89ab', 1 + floor(rand() * 4), 1), left(sha2(concat(uuid(), rand(), connection_id()), 256), 15))),
    21, 0, '-'), 17, 0, '-'), 13, 0, '-'), 9, 0, '-'));
  set v_problem = case
    when p_source is null or octet_length(p_source) not between 1 and 2048
      then 'expected source to be a text of 1 to 2048 bytes'
    when p_type is null or octet_length(p_type) not between 1 and 255
      then 'expected type to be a text of 1 to 255 bytes'
    when octet_length(v_id) not between 1 and 2048 then 'expected id to be null or a text of 1 to 2048 bytes'
    when octet_length(p_key) not between 1 and 2048 then 'expected key to be null or a text of 1 to 2048 bytes'
    when octet_length(v_relay) not between 1 and 255 or convert(v_relay using utf8mb4) regexp '[[:cntrl:]]'
      then 'expected relay to be null or a text of 1 to 255 bytes without control characters'
    when not v_delay between 0 and 3153600000000 then 'expected delay_ms to be null or a number from 0 to 100 years'
    when p_key is not null and v_delay > 0
      then 'expected delay_ms to be absent on a message with a key, because it would hold up what comes after it'
    when p_data is null then 'expected data to be the text of a JSON value, or none, got null'
    when p_data = cast('' as binary) then 'expected data to be the text of a JSON value, or none, got an empty text'
    when p_data <> cast('none' as binary) and not json_valid(p_data)
      then 'expected data to be the text of a JSON value, or none' end;
  if v_problem is not null then
    signal sqlstate '22023' set message_text = v_problem;
  end if;
  -- A message without data. No program makes this word by accident, as it may make an empty text.
  set p_data = if(p_data = cast('none' as binary), cast('' as binary), p_data);

  set v_attributes = concat('{',
    coalesce(concat('"subject":', json_extract(p_options, '$.subject'), ','), ''),
    '"time":"', date_format(v_now, '%Y-%m-%dT%H:%i:%s.'), left(lpad(microsecond(v_now), 6, '0'), 3), 'Z"',
    ',"datacontenttype":"application/json"',
    coalesce(concat(',"correlationId":', json_extract(p_options, '$.correlationId')), ''),
    coalesce(concat(',"causationId":', json_extract(p_options, '$.causationId')), ''),
    coalesce(concat(',"traceparent":', json_extract(p_options, '$.traceparent')), ''),
    coalesce(concat(',"tracestate":', json_extract(p_options, '$.tracestate')), ''),
    coalesce(concat(',"headers":', v_headers), ''),
    '}');
  set v_bytes = octet_length(p_data) + octet_length(v_attributes);
  if v_bytes > 1048576 then
    set v_problem = concat('expected a message of at most 1048576 bytes, got ', v_bytes);
    signal sqlstate '22023' set message_text = v_problem;
  end if;

  set v_digest = sha2(concat(
    octet_length(p_source), ':', cast(p_source as binary), ',', octet_length(v_id), ':', v_id, ','), 256);
  set v_message_key = unhex(concat(
    if(octet_length(v_id) = 36 and convert(v_id using latin1)
      regexp '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$',
      convert(concat(substr(v_id, 1, 8), substr(v_id, 10, 4)) using ascii), '000000000000'),
    '8', substr(v_digest, 2, 3),
    substr('89ab89ab89ab89ab', conv(substr(v_digest, 5, 1), 16, 10) + 1, 1), substr(v_digest, 6, 15)));
  set v_lane = conv(if(p_key is null, right(hex(v_message_key), 2), left(sha2(p_key, 256), 2)), 16, 10) % 64;

  -- A text that begins with U+0001 means an escaped one in the tables.
  insert into ${prefix}outbox
    (relay, message_key, source, id, type, \`key\`, attributes, data, fingerprint, created_at, available_at, lane)
  values (v_relay, v_message_key,
    ${stored('p_source')},
    ${stored('v_id')},
    ${stored('p_type')},
    ${stored('p_key')},
    v_attributes, p_data, unhex(left(sha2(p_data, 256), 16)), v_now,
    timestampadd(microsecond, v_delay * 1000, v_now), v_lane);
  set published_id = convert(v_id using utf8mb4);
end`,
  ]
}

/** A text as the tables have it. As bytes: under many collations a search for U+0000, which has no weight, finds it in any text. */
function stored(text: string): string {
  const bytes = `cast(${text} as binary)`
  return `if(left(${bytes}, 1) = x'01' or locate(x'00', ${bytes}) > 0,
      concat(x'01', replace(replace(${bytes}, '%', '%25'), x'00', '%00')), ${bytes})`
}
