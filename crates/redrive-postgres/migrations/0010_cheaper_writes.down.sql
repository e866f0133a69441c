ALTER INDEX redrive.items_upload_group_name_name_key RESET (fillfactor);
